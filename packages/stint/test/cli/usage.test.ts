import { spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { version } from "#stint/version.js";
import { inLab } from "../support/lab.ts";
import { project, start, stint } from "./support.ts";

const nowhere = { DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" };

test("help names every command, the exit codes and where the database comes from", async () => {
  const help = await stint(["--help"]);

  expect(help.code).toBe(0);
  for (const name of "dev worker migrate enqueue jobs dead top stats queues workers doctor completion grants".split(
    " ",
  )) {
    expect(help.stdout).toMatch(new RegExp(`^  ${name}\\b`, "m"));
  }
  expect(help.stdout).toContain("Exit codes: 0 done, 1 failed, 2 wrong usage");
  expect((await stint(["--version"])).stdout.trim()).toBe(version);
});

test.each([["dev"], ["worker"], ["migrate"], ["enqueue"], ["jobs list"], ["dead replay"], ["grants"]])(
  "the help of %s shows an example and the options of every command",
  async (command) => {
    // As a process of its own: it must end by itself, with its exit code.
    const args = [...command.split(" "), "--help"];
    const help = inLab || command === "worker" ? await start(args).ended : await stint(args);

    expect(help.code).toBe(0);
    expect(help.stdout).toContain(`$ stint ${command}`);
    expect(help.stdout).toContain("--database-url <url>");
  },
);

test("a misspelt command is wrong usage, and the right one is suggested", async () => {
  expect(await stint(["jbos", "list"])).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("unknown command 'jbos' (Did you mean jobs?) [USAGE]"),
  });
});

test.each([
  [["dead", "replay", "--bogus"], "See `stint dead replay --help`."],
  [["dead", "replay", "--reason", "x"], "See `stint dead replay --help`."],
  [["dead", "replay", "019a8a2c-1f00-7000-8000-0123456789ab"], "See `stint dead replay --help`."],
  [["jobs", "lst"], "See `stint jobs --help`."],
  [["jbos"], "See `stint --help`."],
])("wrong usage of %j names the help of that command", async (args, hint) => {
  expect(await stint(args, { env: nowhere })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(hint),
  });
});

test.each([
  [["jobs", "list", "--state", "redy"], '--state: must be "scheduled" or', 'did you mean "ready"?'],
  [
    ["jobs", "list", "--limit", "5000"],
    "--limit: must be an integer from 1 to 1000",
    "See `stint jobs list --help`.",
  ],
  [["top", "--every", "5"], "--every: must be a duration", 'did you mean "5s"?'],
  [["jobs", "show"], "missing required argument 'id'", "Usage: stint jobs show [options] <id>"],
  [["completion", "bsh"], "'bsh' is no <shell>.", "bash, zsh, fish"],
  [["doctor", "now"], "too many arguments", "Usage: stint doctor [options]"],
  [["doctor", "--database-url", "mysql://h/d"], "--database-url: must be", "Stint works on Postgres only."],
])(
  "wrong usage of %j prints the problem in terms of the command line, and the fix",
  async (args, what, next) => {
    const ended = await stint(args, { env: nowhere });

    expect(ended).toMatchObject({ code: 2, stdout: "" });
    expect(ended.stderr).toContain(what);
    expect(ended.stderr).toContain(next);
  },
);

test("a command group without a subcommand prints its help and is wrong usage", async () => {
  expect(await stint(["dead"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("replay [options]"),
  });
});

test("with --json, usage errors are printed as JSON on standard error", async () => {
  const ended = await stint(["jobs", "list", "--limit", "many", "--json"]);

  expect(ended).toMatchObject({ code: 2, stdout: "" });
  expect(JSON.parse(ended.stderr)).toMatchObject({
    error: { code: "USAGE", message: expect.stringContaining("--limit") },
  });
});

test("an argument with escape sequences in it is not echoed raw", async () => {
  const ended = await stint(["\u001b[31mred", "--json"]);

  expect(ended.code).toBe(2);
  expect(ended.stderr).not.toContain("\u001b");
});

test("an option that the database would refuse is refused before connecting", async () => {
  const ended = await stint(["jobs", "list", "--schema", "no-such;schema"], { env: nowhere });

  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("--schema: must be") });
});

test("without a database the error lists where to set one", async () => {
  const ended = await stint(["queues"], { cwd: await project({}) });

  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("DATABASE_URL: is not set") });
});

test("a worker without a config prints how to write one", async () => {
  const ended = await stint(["worker"], { cwd: await project({}), env: nowhere });

  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("export default defineConfig(") });
});

test("a world-writable config is not run", async () => {
  const folder = await project({ "stint.config.mjs": "console.log('it ran'); export default {};" });
  await chmod(join(folder, "stint.config.mjs"), 0o666);

  const ended = await stint(["queues"], { cwd: folder, env: nowhere });

  expect(ended).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("chmod o-w") });
});

test.each([
  ["throws", "throw new TypeError('no wifi');", "could not be loaded (TypeError: no wifi)"],
  ["has no default export", "export const config = {};", "has no default export"],
  ["has a misspelt key", "export default { wroker: {} };", 'did you mean "worker"?'],
  ["has no worker", "export default {};", "stint.config.ts.worker: is needed"],
])("a config that %s is reported by its name", async (_, text, message) => {
  const ended = await stint(["worker"], { cwd: await project({ "stint.config.ts": text }), env: nowhere });

  expect(ended.code).toBe(2);
  expect(ended.stderr).toContain("stint.config.ts");
  expect(ended.stderr).toContain(message);
  expect(ended.stderr).not.toContain("    at ");
});

test("importing the library loads nothing of the CLI", () => {
  const hook = `data:text/javascript,${encodeURIComponent(
    "export async function resolve(name, context, next) { const found = await next(name, context); console.log(found.url); return found; }",
  )}`;
  const script = `import { register } from "node:module"; register(${JSON.stringify(hook)}); await import("stint");`;

  const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: fileURLToPath(new URL("../../", import.meta.url)),
    encoding: "utf8",
  });

  expect(status).toBe(0);
  expect(stdout).toContain("dist/index.js");
  expect(stdout).not.toMatch(/commander|jiti|dist\/cli\//);
});
