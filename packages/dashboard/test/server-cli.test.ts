/** `stint dashboard`, and the dashboard of `stint dev`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defineJob, typed } from "stint";
import { expect, test } from "vitest";
import { project, start, stint } from "../../stint/test/cli/support.ts";
import { builtPackage } from "../../stint/test/support/built-package.ts";
import { testFolder } from "../../stint/test/support/folder.ts";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { inLab, slice } from "../../stint/test/support/lab.ts";

const token = "a-token-of-some-length";

async function addressOf(running: ReturnType<typeof start>): Promise<string> {
  await running.wrote("The dashboard is at http://");
  return /The dashboard is at (\S+)/.exec(running.text())![1]!;
}

test("serves this machine without a token, and ends with 0 on SIGINT", async () => {
  const fresh = await freshSchema();
  const running = start(["dashboard", "--port", "0", "--schema", fresh.schema], {
    env: { DATABASE_URL: fresh.url },
  });
  const url = await addressOf(running);
  const me = await fetch(`${url}api/me`);

  expect(await me.json()).toMatchObject({ user: null, can: { admin: true }, environment: null });
  const listening = await fetch(`${url}api/events`);
  running.process.kill("SIGINT");
  expect((await running.ended).code).toBe(0);
  await listening.text().catch(() => undefined);
});

test("a token admits browsers by password and programs by bearer, and names the actor", async () => {
  const fresh = await freshSchema();
  const work = defineJob("work", { payload: typed<object>() });
  const { id } = await fresh.client().enqueue(work, {}, { delay: "1h" });
  const file = join(await testFolder(), "token");
  await writeFile(file, `${token}\n`);
  const args = ["--port", "0", "--token-file", file, "--environment", "live", "--production"];
  const running = start(["dashboard", ...args, "--schema", fresh.schema], {
    env: { DATABASE_URL: fresh.url },
  });
  const url = await addressOf(running);
  const basic = `Basic ${Buffer.from(`ada:${token}`).toString("base64")}`;
  const status = async (authorization?: string): Promise<number> =>
    (await fetch(`${url}api/me`, authorization === undefined ? {} : { headers: { authorization } })).status;

  expect([
    await status(),
    await status("Bearer wrong-wrong-wrong-wrong"),
    await status(`Bearer ${token}`),
  ]).toEqual([401, 401, 200]);
  const me = await fetch(`${url}api/me`, { headers: { authorization: basic } });
  expect(await me.json()).toMatchObject({ user: "ada", environment: { name: "live", production: true } });
  await fetch(`${url}api/jobs/${id}/cancel`, {
    method: "POST",
    headers: { authorization: basic, "content-type": "application/json", "x-stint": "1" },
    body: JSON.stringify({ reason: "a test" }),
  });
  expect(await fresh.client().audit(id)).toMatchObject([{ actor: "ada", reason: "a test" }]);
  expect(running.text()).not.toContain(token);
  running.process.kill("SIGTERM");
  expect((await running.ended).code).toBe(0);
});

test("the config sets redaction, trace URL and environment; flags override it", async () => {
  const fresh = await freshSchema();
  const work = defineJob("work", { payload: typed<object>() });
  const { id } = await fresh.client().enqueue(work, { card: "4111111111111111" }, { delay: "1h" });
  const folder = await project({
    "stint.config.ts": `export default {
      schema: ${JSON.stringify(fresh.schema)},
      dashboard: {
        redact: ["payload.card"],
        traceUrl: "https://traces.example.com/{traceId}",
        environment: { name: "staging", production: true },
      },
    };`,
  });
  const env = { DATABASE_URL: fresh.url };
  const cases = [
    { flags: [], environment: { name: "staging", production: true } },
    { flags: ["--environment", "live"], environment: { name: "live", production: true } },
  ];
  for (const { flags, environment } of slice(cases, (one) => one.flags.length > 0)) {
    const running = start(["dashboard", "--port", "0", ...flags], { cwd: folder, env });
    const url = await addressOf(running);
    expect(await (await fetch(`${url}api/me`)).json()).toMatchObject({
      traceUrl: "https://traces.example.com/{traceId}",
      environment,
    });
    const shown = await (await fetch(`${url}api/jobs/${id}`)).text();
    expect(shown).not.toContain("41111111");
    running.process.kill("SIGTERM");
    expect((await running.ended).code).toBe(0);
  }
});

test("with an unreadable config nothing is shown, as it may set redaction", async () => {
  const folder = await project({ "stint.config.ts": `throw new Error("no such module");` });
  const ended = await stint(["dashboard", "--port", "0"], {
    cwd: folder,
    env: { DATABASE_URL: "postgres://127.0.0.1:1/x" },
  });
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("no such module") });
});

test.each([
  { args: ["--host", "0.0.0.0"], env: {}, words: "a token is needed" },
  { args: ["--host", "192.168.1.4"], env: { STINT_DASHBOARD_TOKEN: "" }, words: "a token is needed" },
  { args: ["--host", "127.0.0.1.evil.example"], env: {}, words: "a token is needed" },
  { args: ["--host", "0.0.0.0"], env: { STINT_DASHBOARD_TOKEN: "short" }, words: "at least 16 characters" },
  { args: ["--token-file", "/nowhere/token"], env: {}, words: "--token-file: cannot be read" },
  { args: ["--production"], env: {}, words: "needs --environment" },
  { args: ["--port", "70000"], env: {}, words: "--port" },
])("refuses $args with $env", async ({ args, env, words }) => {
  const ended = await stint(["dashboard", ...args], {
    env: { DATABASE_URL: "postgres://127.0.0.1:1/x", ...env },
  });
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(words) });
});

test.runIf(inLab)("dev serves the dashboard beside the worker, on the same database", async () => {
  const fresh = await freshSchema();
  const folder = await project({ "stint.config.ts": configOf(fresh.schema) });
  const dev = start(["dev"], { cwd: folder, env: { DATABASE_URL: fresh.url } });
  const url = await addressOf(dev);

  expect((await fetch(`${url}api/operations`)).status).toBe(200);
  expect((await fetch(url)).headers.get("content-type")).toBe("text/html; charset=utf-8");
  dev.process.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
});

test("without the package, dashboard prints what to install, and dev continues", async () => {
  const fresh = await freshSchema();
  const hooks = `export async function resolve(name, context, next) {
    if (name !== "@stint/dashboard") return await next(name, context);
    const error = new Error("Cannot find package '@stint/dashboard' imported from here");
    throw Object.assign(error, { code: "ERR_MODULE_NOT_FOUND" });
  }`;
  const files = {
    "stint.config.ts": configOf(fresh.schema),
    "without.mjs": `import { register } from "node:module";
      register("data:text/javascript," + encodeURIComponent(${JSON.stringify(hooks)}));`,
  };
  const folder = await project(files, await builtPackage());
  const env = { DATABASE_URL: fresh.url, NODE_OPTIONS: `--import=${join(folder, "without.mjs")}` };
  const words = "npm install --save-dev @stint/dashboard";

  // A new process, because only a new process reads NODE_OPTIONS.
  expect(await start(["dashboard"], { cwd: folder, env }).ended).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(words),
  });
  const dev = start(["dev"], { cwd: folder, env });
  await dev.wrote(words);
  await dev.wrote("Serving default");
  dev.process.kill("SIGINT");
  expect((await dev.ended).code).toBe(0);
});

function configOf(schema: string): string {
  return `
    import { defineJob, handle, typed } from "stint";
    const work = defineJob("work", { payload: typed() });
    const schema = ${JSON.stringify(schema)};
    export default { schema, worker: { pools: { default: 1 }, handlers: [handle(work, async () => 1)] } };`;
}
