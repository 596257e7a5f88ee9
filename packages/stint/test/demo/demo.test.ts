import { randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { isAlive } from "#stint/embedded/processes.js";
import { readFlags } from "../../../../examples/study-platform/flags.ts";
import { query, testDatabaseUrl } from "../support/database.ts";
import { until } from "../support/until.ts";
import { inLab } from "../support/lab.ts";
import { exampleArgs, root } from "./example.ts";

const queues = ["embedding", "inference", "ocr", "notification", "agent", "maintenance"];

describe("npm start", () => {
  test.runIf(inLab)(
    "runs the demo, prints how a killed worker's job was rescued, and loses no job",
    async () => {
      const demo = startDemo(["--seconds", "4"]);

      const code = await demo.ended;

      expect(demo.output()).toMatch(/^Starting an embedded Postgres/);
      expectInOrder(demo.output(), [
        /worker helper-\w+ joins in/,
        /worker helper-\w+ was killed \(kill -9\) while running research-topic …\w+; its lease runs out/,
        /its lease ran out: research-topic …\w+ rescued/,
        /research-topic …\w+ is running again, on main-/,
        /research-topic …\w+ succeeded on main-/,
        /Drained in [\d.]+ s/,
        /It adds up/,
      ]);
      expectConservation(demo.output());
      expect({ code, errors: demo.errors() }).toEqual({ code: 0, errors: "" });
      await expect.poll(() => leftOf(demo), { timeout: 60_000 }).toEqual([]);
    },
  );

  test.runIf(inLab)(
    "shows every kind of failure on DATABASE_URL, and reports its drain on SIGINT",
    async () => {
      const demo = startDemo([], { DATABASE_URL: await ownDatabase() });
      for (const event of [/joins in/, /429 Too Many Requests/, /dead at once/, /rolled back/])
        await demo.says(event);

      demo.process.kill("SIGINT");
      const code = await demo.ended;

      expect(demo.output()).toMatch(/^Using the Postgres of DATABASE_URL/);
      expect(demo.output()).toMatch(/Drained in [\d.]+ s: \d+ running jobs ended, 0 released/);
      expectConservation(demo.output());
      expect({ code, errors: demo.errors() }).toEqual({ code: 0, errors: "" });
      await expect.poll(() => leftOf(demo), { timeout: 60_000 }).toEqual([]);
    },
  );

  test.runIf(inLab)("leaves no Postgres and no helper process behind when it is killed", async () => {
    const demo = startDemo([]);
    await demo.says(/joins in/);

    demo.process.kill("SIGKILL");
    await demo.ended;

    await expect.poll(() => leftOf(demo), { timeout: 60_000 }).toEqual([]);
  });

  test("ends with exit code 0 after --help", async () => {
    const demo = startDemo(["--help"]);
    const code = await demo.ended;
    expect(demo.output()).toContain("--seconds N");
    expect({ code, errors: demo.errors() }).toEqual({ code: 0, errors: "" });
  });

  test("refuses an unknown flag with its usage and exit code 2", () => {
    expect(endOf("--nope")).toMatchObject({
      code: 2,
      errors: expect.stringContaining("Usage: npm start") as string,
    });
  });

  test.each(["soon", "0", "-1", "1e9"])("refuses to run for %s seconds", (seconds) => {
    const message = `--seconds must be a number from 1 to 86400, got "${seconds}"`;
    expect(endOf(`--seconds=${seconds}`)).toMatchObject({
      code: 2,
      errors: expect.stringContaining(message) as string,
    });
  });
});

/** How a demo with this flag ends, which it does before it has started anything. */
function endOf(flag: string): { code: unknown; errors: string } {
  let code: unknown;
  const exit = vi.spyOn(process, "exit").mockImplementation((given) => {
    code = given;
    throw new Error("the process ends");
  });
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  try {
    expect(() => readFlags([flag])).toThrow("the process ends");
    return { code, errors: write.mock.calls.map(([text]) => String(text)).join("") };
  } finally {
    exit.mockRestore();
    write.mockRestore();
  }
}

type Demo = ReturnType<typeof startDemo>;

function startDemo(args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [...exampleArgs("study-platform"), ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, DATABASE_URL: "", ...env },
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  return {
    process: child,
    output: () => out,
    errors: () => err,
    /** Resolves with its exit code. */
    ended: new Promise<number | null>((resolve) => {
      child.once("close", (code) => resolve(code));
    }),
    says: async (text: RegExp) => {
      await until(() => text.test(out), { message: `the demo says ${text}` }).catch((error: Error) => {
        throw new Error(`${error.message}\n${out}${err}`, { cause: error });
      });
    },
  };
}

/** An empty database, so that the demo's fixed schema names cannot clash. */
async function ownDatabase(): Promise<string> {
  const name = `demo_${randomBytes(6).toString("hex")}`;
  await query(`create database ${name}`);
  onTestFinished(async () => {
    await query(`drop database ${name} with (force)`);
  });
  const url = new URL(testDatabaseUrl());
  url.pathname = `/${name}`;
  return url.href;
}

function expectInOrder(output: string, patterns: readonly RegExp[]): void {
  let from = 0;
  for (const pattern of patterns) {
    const found = output.slice(from).search(pattern);
    expect(found, `${pattern} after\n${output.slice(0, from)}\nin\n${output}`).toBeGreaterThanOrEqual(0);
    from += found;
  }
}

/** Adds up the printed numbers again: the demo's own word for it is not enough. */
function expectConservation(output: string): void {
  for (const queue of queues) {
    const line = new RegExp(`^${queue} +(\\d+) = +(\\d+) \\+ +(\\d+) \\+ +(\\d+) \\+ +(\\d+)`, "m").exec(
      output,
    );
    expect(line, `the summary of ${queue} in\n${output}`).not.toBeNull();
    const [enqueued, ...parts] = line!.slice(1).map(Number);
    expect(parts.reduce((sum, part) => sum + part, 0)).toBe(enqueued);
  }
}

/** The processes and the folder of a demo that are still there. */
function leftOf(demo: Demo): string[] {
  const output = demo.output();
  const helpers = [...output.matchAll(/worker (helper-)(\d+) joins/g)];
  const server = /(Postgres) \(pid (\d+)\) .*data in (\S+),/.exec(output);
  const folder = server?.[3] ?? "";
  return [
    ...[...helpers, ...(server === null ? [] : [server])]
      .filter((match) => isAlive(Number(match[2])))
      .map((match) => match[0]),
    ...(existsSync(folder) ? [folder] : []),
  ];
}
