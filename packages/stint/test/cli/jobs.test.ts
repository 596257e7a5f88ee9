import { expect, test } from "vitest";
import { defineJob, handle, typed, type Job } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { jsonOf, project, stint, stintOn, type RunOptions } from "./support.ts";

const add = defineJob("add", { payload: typed<unknown>(), queue: "sums" });

const config = `
  import { defineJob } from "stint";
  const schema = { "~standard": { version: 1, vendor: "test", validate: (value) =>
    typeof value?.a === "number" ? { value } : { issues: [{ message: "must be a number", path: ["a"] }] } } };
  export default { jobs: [defineJob("add", { payload: schema, queue: "sums" })] };`;

test("enqueue adds a job of the config's kind with its options", async () => {
  const fresh = await freshSchema();
  const options: RunOptions = {
    cwd: await project({ "stint.config.ts": config }),
    env: { DATABASE_URL: fresh.url },
  };
  const flags = [
    "--schema",
    fresh.schema,
    "--delay",
    "1h",
    "--key",
    "k",
    "--priority",
    "-3",
    "--tag",
    "a,b",
    "--tag",
    "c",
    "--tenant",
    "acme",
  ];

  const text = await stint(["enqueue", "add", `{"a":1}`, ...flags], options);
  const json = await stint(["enqueue", "add", "-", "--schema", fresh.schema, "--json"], {
    ...options,
    input: `{"a":2}`,
  });

  expect(text).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Enqueued add [0-9a-f-]{36}\n$/) });
  const client = fresh.client();
  expect(await client.get(text.stdout.trim().split(" ")[2]!)).toMatchObject({
    state: "scheduled",
    payload: { a: 1 },
    queue: "sums",
    key: "k",
    priority: -3,
    tags: ["a,b", "c"],
    tenant: "acme",
  });
  const { id, created } = jsonOf(json) as { id: string; created: boolean };
  expect(created).toBe(true);
  expect(await client.get(id)).toMatchObject({ state: "ready", payload: { a: 2 } });
});

test("enqueue reports an existing job, by dedupe key and by id", async () => {
  const fresh = await freshSchema();
  const options: RunOptions = {
    cwd: await project({ "stint.config.ts": config }),
    env: { DATABASE_URL: fresh.url },
  };
  const flags = [
    "--schema",
    fresh.schema,
    "--dedupe-key",
    "once",
    "--dedupe-until",
    "1h",
    "--at",
    "2099-01-01T00:00:00Z",
  ];
  type Deduped = { id: string; created: boolean };
  const run = async (): Promise<Deduped> =>
    jsonOf(await stint(["enqueue", "add", `{"a":1}`, ...flags, "--json"], options)) as Deduped;

  const first = await run();
  const second = await run();

  expect(first.created).toBe(true);
  expect(second).toEqual({ ...first, status: "existing", created: false });
});

const refused: [string[], string][] = [
  [["ad", `{"a":1}`], 'did you mean "add"?'],
  [["add", `{a:1}`], "json: is not JSON"],
  [["add", `{"a":"1"}`], "[INVALID_PAYLOAD]"],
  [["add", `{"a":1}`, "--at", "2099-01-01"], "--at: must be a date"],
  [["add", `{"a":1}`, "--delay", "soon"], "must be a duration"],
];

test("enqueue refuses an unknown kind, payload or time, and writes nothing", async () => {
  const fresh = await freshSchema();
  const options = { cwd: await project({ "stint.config.ts": config }), env: { DATABASE_URL: fresh.url } };

  const runs = await Promise.all(
    refused.map(([args]) => stint(["enqueue", ...args, "--schema", fresh.schema], options)),
  );

  for (const [index, ended] of runs.entries()) {
    expect(ended).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(refused[index]![1]) });
  }
  expect(await fresh.sql("select id from stint.job")).toEqual([]);
});

test("jobs list prints aligned rows, and its pages connect", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const client = fresh.client({ jobs: [add] });
  const first = await client.enqueue("add", { a: 1 }, { key: "one", tags: ["t"], tenant: "acme" });
  const second = await client.enqueue("add", { a: 2 }, { delay: "1h" });

  const text = await run("jobs", "list");
  const page = jsonOf(await run("jobs", "list", "--limit", "1", "--json")) as { jobs: Job[]; next: string };
  const rest = jsonOf(await run("jobs", "list", "--after", page.next, "--json")) as {
    jobs: Job[];
    next: null;
  };

  const [head, ...rows] = text.stdout.trimEnd().split("\n");
  expect(text.code).toBe(0);
  expect(rows).toHaveLength(2);
  expect(rows[0]).toContain(second.id);
  for (const row of rows) expect(row.slice(head!.indexOf("KIND"))).toMatch(/^add /);
  expect(rows[0]).toMatch(/scheduled .* due in (59 min|1 h)/);
  expect(rows[1]).toMatch(/ready .* ago .*one/);
  expect(page.jobs.map((job) => job.id)).toEqual([second.id]);
  expect(rest).toMatchObject({ jobs: [{ id: first.id, key: "one" }], next: null });

  const filters = [
    "--state",
    "ready,running",
    "--kind",
    "add",
    "--queue",
    "sums",
    "--key",
    "one",
    "--tag",
    "t",
    "--tenant",
    "acme",
  ];
  expect(
    (jsonOf(await run("jobs", "list", ...filters, "--json")) as { jobs: Job[] }).jobs.map((job) => job.id),
  ).toEqual([first.id]);
  expect(await run("jobs", "list", "--state", "redy")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('did you mean "ready"'),
  });
});

test("jobs run-now and cancel act on one job and print it", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const client = fresh.client({ jobs: [add] });
  const { id } = await client.enqueue("add", {}, { delay: "1h" });

  expect(await run("jobs", "run-now", id)).toMatchObject({ code: 0, stdout: `${id} is ready.\n` });
  expect((await client.get(id))?.state).toBe("ready");
  expect(jsonOf(await run("jobs", "run-now", id, "--json"))).toEqual({ id, state: "ready" });
  expect(jsonOf(await run("jobs", "cancel", id, "--reason", "test", "--json"))).toEqual({
    id,
    outcome: "cancelled",
  });
  expect((await client.get(id))?.state).toBe("cancelled");
  expect(await run("jobs", "cancel", id)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("[WRONG_STATE]"),
  });
  expect(await fresh.sql("select actor, reason from stint.audit where reason = 'test'")).toMatchObject([
    { actor: expect.stringMatching(/^cli/) },
  ]);
});

test("jobs show prints every field of a job, and an error for a missing one", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const { id } = await fresh.client({ jobs: [add] }).enqueue("add", { a: [1, 2] }, { key: "k" });

  const text = await run("jobs", "show", id);

  expect(text.code).toBe(0);
  expect(text.stdout).toContain(id);
  expect(text.stdout).toMatch(/^Key +k$/m);
  expect(text.stdout).toContain('  "a": [');
  expect(jsonOf(await run("jobs", "show", id, "--json"))).toMatchObject({
    id,
    kind: "add",
    payload: { a: [1, 2] },
    log: [],
    audit: [],
  });
  expect(await run("jobs", "show", "019a8a2c-1f00-7000-8000-0123456789ab")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("[JOB_NOT_FOUND]"),
  });
  expect((await run("jobs", "show", "7")).code).toBe(2);
});

test("jobs show prints the audit of a job and the time of a requested cancel", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const client = fresh.client({ jobs: [add] });
  const looked = gate();
  const { id } = await client.enqueue("add", {}, { delay: "1h" });
  const worker = client.worker({
    pools: { sums: 1 },
    signals: false,
    drain: 0,
    abort: "1m",
    // It does not heed the cancel until the test has looked at it.
    handlers: [handle(add, async () => await looked.opened)],
  });
  await worker.start();
  await client.runNow(id, { actor: "ada", reason: "asked by phone" });
  await until(async () => (await client.get(id))?.state === "running");
  await client.cancel(id, { actor: "bob", reason: "withdrawn" });

  const text = await run("jobs", "show", id);
  const json = jsonOf(await run("jobs", "show", id, "--json"));
  looked.open();
  await worker.stop();

  expect(text.stdout).toMatch(/^Cancel +asked for \S+ \(\S+ m?s ago\)$/m);
  expect(text.stdout).toMatch(/^ACTION +WHEN +WHO +REASON$/m);
  expect(text.stdout).toMatch(/^run-now +.+ ago +ada +asked by phone$/m);
  expect(text.stdout).toMatch(/^cancel +.+ ago +bob +withdrawn$/m);
  expect(json).toMatchObject({
    id,
    cancelRequested: true,
    audit: [
      { action: "run-now", actor: "ada", reason: "asked by phone", at: expect.any(String) },
      { action: "cancel", actor: "bob", reason: "withdrawn" },
    ],
  });
});

test("job contents cannot send terminal escapes, and their passwords are hidden", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const hostile = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202egnp";
  const secret = "postgres://app:hunter2@db/app";
  const client = fresh.client({ jobs: [add] });
  const { id } = await client.enqueue("add", { text: hostile, secret });
  const worker = client.worker({
    pools: { sums: 1 },
    signals: false,
    attempts: 1,
    handlers: [
      handle(add, () => {
        throw new Error(`${hostile}\nfake line ${secret}`);
      }),
    ],
  });
  await worker.start();
  await until(async () => (await client.get(id))?.state === "dead");
  await worker.stop();

  const texts = await Promise.all([run("jobs", "list"), run("jobs", "show", id), run("dead", "list")]);
  const documents = await Promise.all([run("jobs", "show", id, "--json"), run("dead", "list", "--json")]);

  for (const { code, stdout } of texts) {
    expect(code).toBe(0);
    expect(stdout).toContain(id);
    expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(stdout).not.toContain("hunter2");
  }
  for (const { stdout } of documents) expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
  expect((jsonOf(documents[0]) as Job<{ text: string }>).payload.text).toBe(hostile);
});

test("colours need a terminal or a force flag, and never override NO_COLOR", async () => {
  const fresh = await freshSchema();
  await fresh.client({ jobs: [add] }).enqueue("add", {});
  const list = async (env: Record<string, string>, ...args: string[]): Promise<string> =>
    (
      await stint(["jobs", "list", "--schema", fresh.schema, ...args], {
        env: { DATABASE_URL: fresh.url, ...env },
      })
    ).stdout;

  expect(await list({})).not.toContain("\u001b");
  expect(await list({ FORCE_COLOR: "1" })).toContain("\u001b[34mready");
  expect(await list({ FORCE_COLOR: "1", NO_COLOR: "1" })).not.toContain("\u001b");
  expect(await list({ FORCE_COLOR: "1" }, "--no-color")).not.toContain("\u001b");
});

test("queues prints counts by state and slots; workers lists the workers", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  const client = fresh.client({
    jobs: [add, defineJob("orphan", { payload: typed<unknown>(), queue: "lost" })],
  });
  await client.enqueue("orphan", {});
  const worker = client.worker({
    pools: { sums: 7 },
    signals: false,
    name: "w-1",
    handlers: [handle(add, () => undefined)],
  });
  await worker.start();

  const queues = await run("queues");
  const workers = await run("workers");
  const json = jsonOf(await run("queues", "--json")) as { queues: object[] };
  const who = jsonOf(await run("workers", "--json")) as { workers: object[] };
  await worker.stop();

  expect(queues.stdout).toMatch(/^QUEUE +OLDEST READY +READY +RUNNING/);
  expect(queues.stdout).toMatch(/^lost +\S+ m?s +1 .* 0 +0\/0$/m);
  expect(queues.stderr).toContain("No worker serves queue lost");
  expect(json.queues).toMatchObject([
    { queue: "lost", ready: 1, slots: 0 },
    { queue: "sums", ready: 0, slots: 7 },
  ]);
  expect(workers.stdout).toMatch(/^w-1-\w+ +serving .* sums 7 +add$/m);
  expect(who.workers).toMatchObject([
    { id: worker.id, pools: { sums: 7 }, kinds: ["add"], state: "serving" },
  ]);
  expect(await run("workers")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^STOPPED .*\n.* ago +w-1-\w+ /),
    stderr: expect.stringContaining("There is no live worker"),
  });
});
