import { expect, test } from "vitest";
import { defineJob, typed } from "#stint/index.js";
import { freshSchemaName, testDatabaseUrl } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { jsonOf, project, stint, type Ended } from "./support.ts";

const canary = "c4nary-p@ss:w0rd";

test.each([
  ["in the URL", `postgres://app:${encodeURIComponent(canary)}@127.0.0.1:1/app`],
  ["in the URL, not escaped", `postgres://app:${canary}@127.0.0.1:1/app`],
  ["as a parameter", `postgres://127.0.0.1:1/app?user=app&password=${encodeURIComponent(canary)}`],
])("a password %s is never printed when the database is unreachable", async (_, url) => {
  const runs = await Promise.all([
    stint(["jobs", "list"], { env: { DATABASE_URL: url } }),
    stint(["queues", "--json"], { env: { DATABASE_URL: url } }),
    stint(["migrate", "--verbose", "--database-url", url]),
  ]);

  for (const { code, stdout, stderr } of runs) {
    expect(code).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("DATABASE_UNAVAILABLE");
    expect(stderr).toContain("***");
    expect(stderr).not.toMatch(/c4nary|p%40ss|w0rd/);
  }
});

test("a stack is printed only on request", async () => {
  const env = { DATABASE_URL: "postgres://app@127.0.0.1:1/app" };

  const [plain, verbose, debug] = await Promise.all([
    stint(["workers"], { env }),
    stint(["workers", "--verbose"], { env }),
    stint(["workers"], { env: { ...env, STINT_DEBUG: "1" } }),
  ]);

  expect(plain.stderr).not.toContain("    at ");
  expect(verbose.stderr).toContain("    at ");
  expect(debug.stderr).toContain("    at ");
});

test("on a missing schema every command prints the command to run", async () => {
  const folder = await project({
    "stint.config.ts": `
      import { defineJob, handle, typed } from "stint";
      const add = defineJob("add", { payload: typed() });
      export default { worker: { pools: { default: 1 }, handlers: [handle(add, () => undefined)] } };`,
  });
  const options = { cwd: folder, env: { DATABASE_URL: testDatabaseUrl() } };
  const schema = freshSchemaName();

  const runs = await Promise.all(
    [["jobs", "list"], ["queues"], ["worker"], ["enqueue", "add", "{}"]].map((args) =>
      stint([...args, "--schema", schema], options),
    ),
  );

  for (const { code, stderr } of runs) {
    expect(code).toBe(1);
    expect(stderr).toContain(`Schema "${schema}" is not installed`);
    expect(stderr).toContain(`Run \`npx stint migrate --schema ${schema}\`, then`);
    expect(stderr).toContain("[SCHEMA_VERSION]");
  }
});

test("while dev runs, jobs can be inspected even with a broken config", async () => {
  const fresh = await freshSchema();
  await fresh.client().enqueue(defineJob("add", { payload: typed<object>() }), {});
  const folder = await project({
    "stint.config.ts": "export default {;",
    ".stint/url": `${fresh.url}\n`,
  });
  const run = async (...args: string[]): Promise<Ended> =>
    await stint([...args, "--schema", fresh.schema], { cwd: folder });

  const text = await run("jobs", "list");
  const json = await run("jobs", "list", "--json");
  const needsKinds = await run("enqueue", "add", "{}");

  expect(text).toMatchObject({ code: 0, stdout: expect.stringContaining("ready") });
  expect(text.stderr).toMatch(/^Warning: Without the config.*stint\.config\.ts: could not be loaded/);
  expect(jsonOf(json)).toMatchObject({ jobs: [{ kind: "add" }] });
  expect(JSON.parse(json.stderr)).toMatchObject({ warning: expect.stringContaining("could not be loaded") });
  expect(needsKinds).toMatchObject({ code: 2, stderr: expect.stringContaining("could not be loaded") });
});
