import { spawnSync } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { testFolder } from "../support/folder.ts";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema } from "../support/fresh.ts";
import { inLab, slice } from "../support/lab.ts";
import { project, start, stint } from "./support.ts";

async function scriptFor(shell: string): Promise<string> {
  const { code, stdout } = await stint(["completion", shell]);
  expect(code).toBe(0);
  return stdout;
}

/** Where a shell completes. */
type Place = { readonly cwd?: string; readonly env?: Record<string, string> };

function optionsOf({ cwd, env = {} }: Place): { encoding: "utf8"; cwd?: string; env: NodeJS.ProcessEnv } {
  return { encoding: "utf8", ...(cwd === undefined ? {} : { cwd }), env: { ...process.env, ...env } };
}

/** What a real bash offers after this command line. */
function offered(script: string, ...words: readonly string[]): string[] {
  return offeredByBash(script, words);
}

function offeredByBash(script: string, words: readonly string[], place: Place = {}): string[] {
  const complete = words[0] === "npx" ? "_stint_npx" : "_stint";
  const { stdout, stderr, status } = spawnSync("bash", ["--noprofile", "--norc", "-s", ...words], {
    ...optionsOf(place),
    input: `${script}
      complete -p stint >&2
      COMP_LINE="$*"
      COMP_POINT=\${#COMP_LINE}
      ${complete}
      printf '%s\\n' "\${COMPREPLY[@]}"
    `,
  });
  expect(stderr).toBe("complete -o default -F _stint stint\n");
  expect(status).toBe(0);
  return stdout.split("\n").filter((line) => line !== "");
}

test("bash completes commands, subcommands, options and values", async () => {
  const script = await scriptFor("bash");

  expect(offered(script, "stint", "do")).toEqual(["doctor"]);
  expect(offered(script, "stint", "")).toEqual(
    expect.arrayContaining(["dev", "worker", "top", "help", "--json"]),
  );
  expect(offered(script, "stint", "jobs", "l")).toEqual(["list"]);
  expect(offered(script, "stint", "jobs", "list", "--sta")).toEqual(["--state"]);
  expect(offered(script, "stint", "--json", "dead", "replay", "--rea")).toEqual(["--reason"]);
  expect(offered(script, "stint", "completion", "")).toEqual(expect.arrayContaining(["bash", "zsh", "fish"]));
  expect(offered(script, "stint", "jobs", "list", "--state", "ca")).toEqual(["cancelled"]);
  expect(offered(script, "stint", "jobs", "list", "--state", "dead,ca")).toEqual(["dead,cancelled"]);
  expect(offered(script, "stint", "jobs", "list", "--state=ca")).toEqual(["cancelled"]);
  expect(offered(script, "stint", "jobs", "run-now", "--state", "r")).toEqual(["retrying"]);
  // Anything may stand here; bash then offers files.
  expect(offered(script, "stint", "jobs", "list", "--key", "")).toEqual([]);
  expect(offered(script, "stint", "jobs", "list", "no-such")).toEqual([]);
});

test("bash completes after npx, and only words of stint", async () => {
  const script = await scriptFor("bash");

  expect(offered(script, "npx", "stint", "do")).toEqual(["doctor"]);
  expect(offered(script, "npx", "stint", "jobs", "list", "--sta")).toEqual(["--state"]);
  expect(offered(script, "npx", "vitest", "do")).toEqual([]);
  expect(offered(script, "npx", "sti")).toEqual([]);
});

test("completion offers exactly the words of --help", async () => {
  const script = await scriptFor("bash");
  for (const command of ["migrate", "enqueue", "doctor", "top"]) {
    const { stdout } = await stint([command, "--help"]);
    const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map((match) => match[1] ?? "");

    expect(offered(script, "stint", command, "--").sort()).toEqual(options.sort());
  }
});

async function folderWith(files: Record<string, string>, cwd?: string): Promise<string> {
  const folder = cwd ?? (await testFolder());
  for (const [name, text] of Object.entries({ "a-file": "", ...files }))
    await writeFile(join(folder, name), text);
  return folder;
}

/** What a real fish offers after each of these command lines. */
async function offeredByFish(lines: readonly string[], place: Place = {}): Promise<Record<string, string[]>> {
  const cwd = await folderWith({ ".script": await scriptFor("fish") }, place.cwd);
  const driver = `
    source .script
    for line in $argv
      echo "asked:$line"
      complete -C "$line"
    end`;
  return offers(spawnSync("fish", ["--no-config", "-c", driver, ...lines], optionsOf({ ...place, cwd })));
}

/** The same of a real zsh, in a terminal of its own: it completes nowhere else. */
async function offeredByZsh(lines: readonly string[], place: Place = {}): Promise<Record<string, string[]>> {
  const setup = `
    PROMPT=
    autoload -Uz compinit && compinit -D -u
    source ./.script
    # Prints the offered completions instead of showing them on the screen.
    compadd () {
      if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
      local -a hits
      builtin compadd -A hits "$@"
      print -rl -- "hit:"$^hits >&2
    }
    offered () { print -r -- "offered:"; comppostfuncs=(offered) }
    comppostfuncs=(offered)
    bindkey '^I' complete-word
    print "it is" "ready"`;
  const cwd = await folderWith({ ".script": await scriptFor("zsh"), ".setup": setup }, place.cwd);
  const driver = `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "source ./.setup"
    while zpty -r shell line; do [[ $line == *"it is ready"* ]] && break; done
    for asked in "$@"; do
      print -r -- "asked:$asked"
      zpty -w -n shell "$asked"$'\\t'
      while zpty -r shell line; do
        print -r -- "$line"
        [[ $line == *offered:* ]] && break
      done
      # Away with the line.
      zpty -w -n shell $'\\x15'
    done
    zpty -d shell`;
  return offers(
    spawnSync("zsh", ["-f", "-c", driver, "zsh", ...lines], {
      ...optionsOf({ ...place, cwd }),
      timeout: 110_000,
    }),
  );
}

/** By command line. fish writes a word and what it means in a line, zsh whatever is in its terminal. */
function offers({ stdout, status }: { stdout: string; status: number | null }): Record<string, string[]> {
  expect({ status, stdout }).toMatchObject({ status: 0 });
  const [, ...parts] = stdout.split("asked:");
  return Object.fromEntries(
    parts.map((part) => {
      const [line = "", ...words] = part.split(/\r?\n/);
      const found = words.flatMap((word) => {
        if (word.includes("hit:")) return [/hit:(.*)$/.exec(word)?.[1] ?? ""];
        return /^(?!offered:)[\w:,=.-]+(\t|$)/.test(word) ? [word.split("\t")[0] ?? ""] : [];
      });
      return [line, found];
    }),
  );
}

const shells = { zsh: offeredByZsh, fish: offeredByFish };

for (const [shell, offeredBy] of Object.entries(shells)) {
  const isThere = spawnSync(shell, ["--version"]).error === undefined;
  if (!isThere) process.stderr.write(`There is no ${shell}: its completion is not tried.\n`);

  test.skipIf(!isThere)(`${shell} completes commands, subcommands, options and values`, async () => {
    const top = "stint ";
    const expected: Record<string, string[]> = {
      "stint do": ["doctor"],
      "stint jobs l": ["list"],
      "stint jobs list --sta": ["--state"],
      "stint --json dead replay --rea": ["--reason"],
      "stint jobs list no-such": [],
      "stint jobs list --state ca": ["cancelled"],
      "stint jobs run-now --state r": ["retrying"],
      "npx stint do": ["doctor"],
      "npx stint jobs list --sta": ["--state"],
      "npx vitest do": [],
    };
    const found = await offeredBy([
      ...Object.keys(expected),
      top,
      "stint completion ",
      "stint jobs list --key ",
    ]);

    expect(found).toMatchObject(expected);
    expect(found[top]).toEqual(expect.arrayContaining(["dev", "worker", "top", "help"]));
    expect(found["stint completion "]?.toSorted()).toEqual(["bash", "fish", "zsh"]);
    // Anything may stand here: files are offered.
    expect(found["stint jobs list --key "]).toEqual(["a-file"]);
  });
}

/** A project with jobs of some kinds, in which `stint` and `npx stint` run. */
async function projectWithJobs(): Promise<Required<Place> & { ids: Record<string, string> }> {
  const fresh = await freshSchema();
  const ids: Record<string, string> = {};
  for (const [kind, queue] of [
    ["read-mail", "mail"],
    ["billing:charge", "billing"],
  ] as const) {
    const [row] = await fresh.sql<{ id: string }>(
      `select stint.enqueue($1, '{}', jsonb_build_object('queue', $2::text)) as id`,
      [kind, queue],
    );
    ids[kind] = row?.id ?? "";
  }
  const library = await builtPackage();
  const files = {
    "stint.config.ts": `
      import { defineConfig, defineJob, handle, typed } from "stint";
      console.log("noise-of-the-config");
      export default defineConfig({
        database: ${JSON.stringify(fresh.url)},
        schema: ${JSON.stringify(fresh.schema)},
        jobs: [defineJob("only-enqueued", { queue: "mail", payload: typed() })],
        worker: {
          pools: { mail: 2, heavy: 1 },
          handlers: [handle(defineJob("read-mail", { queue: "mail", payload: typed() }), async () => undefined)],
        },
      });`,
  };
  const cwd = await project(files, library);
  await mkdir(join(cwd, "node_modules/.bin"));
  await symlink(join(library, "bin/stint.js"), join(cwd, "node_modules/.bin/stint"));
  const PATH = `${join(cwd, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`;
  // The machine may be busy, and the default limit is short for interactive use.
  return { ids, cwd, env: { PATH, STINT_COMPLETION_TIMEOUT: "60s", DATABASE_URL: "" } };
}

/** What is offered after each line, in the words of a shell that replaces the whole word. */
function expectedValues(ids: Record<string, string>): Record<string, string[]> {
  return {
    "stint jobs list --kind ": ["billing:charge", "read-mail"],
    "stint jobs list --kind re": ["read-mail"],
    "stint jobs tail --queue b": ["billing"],
    "stint worker --pool h": ["heavy"],
    "stint enqueue on": ["only-enqueued"],
    "stint enqueue read-mail r": [],
    "npx stint jobs list --kind re": ["read-mail"],
    "npx stint dead list --queue ma": ["mail"],
    [`stint jobs why ${(ids["read-mail"] ?? "").slice(0, -2)}`]: [ids["read-mail"] ?? ""],
    "stint jobs list --schema no_such_schema --kind ": [],
    "stint jobs list --database-url postgres://localhost:1/none --kind ": [],
  };
}

test("bash completes kinds, queues, pools and ids from database and config", async () => {
  const { ids, ...place } = await projectWithJobs();
  const script = await scriptFor("bash");
  const found = (line: string): string[] => offeredByBash(script, line.split(" "), place);

  const expected = slice(Object.entries(expectedValues(ids)), ([line]) =>
    /^stint jobs list --kind re|--pool|enqueue on|why/.test(line),
  );
  for (const [line, values] of expected)
    expect({ line, found: found(line) }).toEqual({ line, found: values });
  // bash replaces what follows the colon.
  expect(found("stint jobs list --kind billing:c")).toEqual(["charge"]);
  if (!inLab) return;
  expect(found("stint worker --pool mail,h")).toEqual(["mail,heavy"]);
  expect(found("stint jobs cancel 0").toSorted()).toEqual(Object.values(ids).toSorted());
  expect(found("stint jobs replay 0")).toEqual([]);
  // Each line is a process, one after another.
}, 600_000);

for (const [shell, offeredBy] of Object.entries(shells)) {
  // Their values come by the same command as those of bash.
  test.skipIf(!inLab || spawnSync(shell, ["--version"]).error !== undefined)(
    `${shell} completes kinds, queues, pools and ids from database and config`,
    async () => {
      const { ids, ...place } = await projectWithJobs();
      // Each line is a process. What is found for which word is the same as with bash; a shell has its own way to ask and to show.
      const expected = slice(
        Object.entries(expectedValues(ids)),
        ([line]) => /list --kind $|npx .*kind/.test(line) && !/no_such|none/.test(line),
      );
      const listed = inLab ? ["stint worker --pool mail,h", "stint jobs list --kind billing:c"] : [];
      const found = await offeredBy([...expected.map(([line]) => line), ...listed], place);

      for (const [line, values] of expected)
        expect({ line, found: found[line]?.toSorted() }).toEqual({ line, found: values });
      if (!inLab) return;
      expect(found[listed[0] ?? ""]).toEqual([shell === "fish" ? "mail,heavy" : "heavy"]);
      expect(found[listed[1] ?? ""]).toEqual(["billing:charge"]);
    },
  );
}

test("completion of values times out without output when the database does not respond", async () => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const url = `postgres://127.0.0.1:${port}/away`;

  for (const source of slice(["kinds", "queues", "ids"], (source) => source === "kinds")) {
    const args = ["complete-values", source, "--", "jobs", "list", "--database-url", url];
    expect(await start(args).ended).toEqual({
      code: 0,
      stdout: "",
      stderr: "",
    });
  }
});

test("completion of values times out when the config blocks or never loads", async () => {
  const codes = [
    "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
    "await new Promise(() => setInterval(() => undefined, 1e6));",
  ];
  for (const code of slice(codes, (one) => one.startsWith("Atomics"))) {
    const cwd = await project({ "stint.config.ts": `${code}\nexport default {};` }, await builtPackage());
    const env = { STINT_COMPLETION_TIMEOUT: "200ms" };

    expect(await start(["complete-values", "pools", "--", "worker"], { cwd, env }).ended).toMatchObject({
      stdout: "",
      stderr: "",
    });
  }
});

test("the internal command that prints values is neither offered nor in the help", async () => {
  expect((await stint(["--help"])).stdout).not.toContain("complete-values");
  expect(offered(await scriptFor("bash"), "stint", "comp")).toEqual(["completion"]);
});

test.each(["zsh", "fish"])("the script for %s has every option, and balanced quotes", async (shell) => {
  const script = await scriptFor(shell);

  expect(script).toContain("--patience".replace("--", shell === "fish" ? "-l " : "--"));
  expect(script.split("'").length % 2).toBe(1);
});

test("an unknown shell is wrong usage, and the known ones are listed", async () => {
  expect(await stint(["completion", "tcsh"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("bash, zsh, fish"),
  });
});
