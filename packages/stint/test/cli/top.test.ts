import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { inLab, slice } from "../support/lab.ts";

const bin = join(await builtPackage(), "bin/stint.js");
// `script` of util-linux gives a real terminal. Where it is missing, or is another system's, these are left out.
const hasTerminal = (spawnSync("script", ["--version"], { encoding: "utf8" }).stdout ?? "").includes(
  "util-linux",
);

const entered = "\u001b[?1049h";
const left = "\u001b[?1049l";
const cursorShown = "\u001b[?25h";

type Watched = {
  terminal: ChildProcess;
  text: () => string;
  press: (keys: string) => void;
  ended: Promise<number | null>;
};

/** `stint top` in a terminal of 120 × 30. What comes after it is the state in which the shell finds the terminal. */
function top(fresh: Fresh, env: Record<string, string> = {}, more: readonly string[] = []): Watched {
  const command = [process.execPath, bin, "top", "--schema", fresh.schema, "--every", "200ms", ...more]
    .map((word) => `'${word}'`)
    .join(" ");
  const terminal = spawn(
    "script",
    [
      "-qefc",
      `stty rows 30 cols 120; ${command}; echo "ended with $?"; stty -a | tr ' ' '\\n' | grep -E '^-?(icanon|echo);?$'`,
      "/dev/null",
    ],
    {
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        TERM: "xterm",
        DATABASE_URL: fresh.url,
        ...env,
      },
      stdio: ["pipe", "pipe", "pipe"],
    },
  );
  onTestFinished(() => {
    terminal.kill("SIGKILL");
  });
  let text = "";
  terminal.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  const ended = new Promise<number | null>((resolve) => {
    terminal.once("close", resolve);
  });
  return { terminal, text: () => text, press: (keys) => terminal.stdin.write(keys), ended };
}

/** What is on the screen since the last time it was painted from its top. */
function screen(watched: Watched): string {
  return watched.text().split("\u001b[H").at(-1) ?? "";
}

/** How the shell found the terminal afterwards. */
function afterwards(text: string): object {
  const after = text.slice(text.lastIndexOf(left) + left.length);
  return {
    ownScreen: text.lastIndexOf(left) > text.lastIndexOf(entered),
    cursor: text.lastIndexOf(cursorShown) > text.lastIndexOf("\u001b[?25l"),
    code: Number(/ended with (\d+)/.exec(after)?.[1]),
    lineMode: /^icanon/m.test(after),
    echo: /^echo/m.test(after),
  };
}

const restored = { ownScreen: true, cursor: true, code: 0, lineMode: true, echo: true };

/** The process that is `stint top` itself. */
async function pidOf({ terminal }: Watched): Promise<number> {
  const children = async (pid: number | undefined): Promise<number[]> =>
    (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).split(" ").filter(Boolean).map(Number);
  const found = await until(async () => {
    for (const shell of await children(terminal.pid))
      for (const pid of [shell, ...(await children(shell))])
        if ((await readFile(`/proc/${pid}/cmdline`, "utf8")).startsWith(process.execPath)) return pid;
    return undefined;
  });
  return found ?? 0;
}

async function installation(): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh.sql(`select stint.enqueue('send-receipt', '{}', '{"queue": "mail"}')`);
  await fresh.sql(`select stint.enqueue('read-page', '{}', '{"queue": "ocr"}')`);
  return fresh;
}

test.skipIf(!hasTerminal)(
  "top shows live queues, opens one, filters, and restores the terminal",
  async () => {
    const fresh = await installation();
    const watched = top(fresh);
    await until(() => ["mail", "ocr"].every((queue) => screen(watched).includes(`  ${queue} `)), {
      message: "both queues are shown",
    });
    expect(watched.text()).toContain(entered);

    await fresh.sql(`select stint.enqueue('import', '{}', '{"queue": "late-comer"}')`);
    await until(() => screen(watched).includes("late-comer"), {
      message: "the new queue is shown by itself",
    });

    watched.press("/");
    watched.press("o");
    watched.press("c");
    await until(() => screen(watched).includes("Filter: oc_") && !screen(watched).includes("mail"));
    watched.press("\r");
    watched.press("\r");
    await until(() => screen(watched).includes("queue ocr") && screen(watched).includes("read-page"), {
      message: "the queue is open and shows its kind",
    });
    watched.press("w");
    await until(() => screen(watched).includes("There is no live worker"));
    watched.press("d");
    await until(() => screen(watched).includes("No job is dead"));
    watched.press("s");
    await until(() => screen(watched).includes("within what is normal"));
    watched.press("?");
    await until(() => screen(watched).includes("show only rows that contain a text"));
    watched.press("q");
    await watched.ended;

    expect(afterwards(watched.text())).toEqual(restored);
  },
);

test.skipIf(!hasTerminal || !inLab)("Ctrl-C quits", async () => {
  const watched = top(await installation());
  await until(() => screen(watched).includes("mail"));
  watched.press("\u0003");
  await watched.ended;

  expect(afterwards(watched.text())).toEqual(restored);
});

test.skipIf(!hasTerminal).each(slice(["SIGTERM", "SIGHUP"] as const, (signal) => signal === "SIGTERM"))(
  "%s restores the terminal",
  async (signal) => {
    const watched = top(await installation());
    await until(() => screen(watched).includes("mail"));
    process.kill(await pidOf(watched), signal);
    await watched.ended;

    expect(afterwards(watched.text())).toEqual(restored);
  },
);

test.skipIf(!hasTerminal)("a crash restores the terminal before it prints the error", async () => {
  const crash = `data:text/javascript,${encodeURIComponent("process.on('SIGUSR2', () => { throw new Error('it crashed'); });")}`;
  const watched = top(await installation(), { NODE_OPTIONS: `--import=${crash}` });
  await until(() => screen(watched).includes("mail"));
  process.kill(await pidOf(watched), "SIGUSR2");
  await watched.ended;

  const text = watched.text();
  expect(text.indexOf("it crashed")).toBeGreaterThan(text.lastIndexOf(left));
  expect(afterwards(text)).toEqual({ ...restored, code: 1 });
});

test.skipIf(!hasTerminal || !inLab)("NO_COLOR omits the colours and keeps the marks", async () => {
  const watched = top(await installation(), { NO_COLOR: "1" });
  await until(() => /^> {2}(?:mail|ocr)/m.test(screen(watched)));
  watched.press("q");
  await watched.ended;

  // oxlint-disable-next-line no-control-regex
  expect(watched.text()).not.toMatch(/\u001b\[\d+(?:;\d+)*m/);
});

test.skipIf(!hasTerminal)("a lost database is reported, and the last data stays on screen", async () => {
  const fresh = await installation();
  const watched = top(fresh);
  await until(() => screen(watched).includes("mail"));
  await fresh.sql("alter view stint.depth rename to depth_gone");
  await until(() => screen(watched).includes("Not fresh: ") && screen(watched).includes("mail"));
  await fresh.sql("alter view stint.depth_gone rename to depth");
  watched.press("q");
  await watched.ended;

  expect(afterwards(watched.text())).toEqual(restored);
});

test.skipIf(!hasTerminal)("--once prints the queues and leaves the terminal alone", async () => {
  const watched = top(await installation(), {}, ["--once"]);
  await watched.ended;

  expect(watched.text()).toContain("mail");
  expect(watched.text()).not.toContain(entered);
});
