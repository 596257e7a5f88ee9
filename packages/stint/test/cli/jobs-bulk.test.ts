import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import type { JobPage, Operation } from "#stint/inspect.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { jsonOf, start, stintOn } from "./support.ts";

const add = defineJob("add", { payload: typed<unknown>(), queue: "sums" });

async function some(fresh: Fresh, count: number, tenant: string): Promise<void> {
  await fresh
    .client()
    .enqueueMany(Array.from({ length: count }, () => entry(add, {}, { delay: "1h", tenant })));
}

const inState = async (fresh: Fresh, state: string): Promise<number> =>
  (await fresh.sql(`select from stint.jobs where state = $1::stint.job_state`, [state])).length;

test("jobs list takes every filter, and refuses impossible ones", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await some(fresh, 3, "acme");
  await some(fresh, 2, "other");
  const list = async (...flags: string[]): Promise<JobPage> =>
    jsonOf(await run("jobs", "list", ...flags, "--json")) as JobPage;

  expect((await list("--tenant", "acme", "--since", "1h")).jobs).toHaveLength(3);
  expect((await list("--tenant", "acme", "--since", "2099-01-01T00:00:00Z")).jobs).toEqual([]);
  expect((await list("--until", "1h")).jobs).toEqual([]);
  const first = await list("--limit", "2");
  expect((await list("--limit", "5", "--after", first.next ?? "")).jobs).toHaveLength(3);
  expect(await list("--error", "boom")).toEqual({ jobs: [], next: null, partial: false });
  expect(await run("jobs", "list", "--since", "yesterday")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--since: must be how long ago, as "2h"') as string,
  });
});

test("a pattern for kinds lists and cancels only jobs of matching kinds", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await some(fresh, 2, "acme");
  const other = defineJob("a-d", { payload: typed<unknown>(), queue: "sums" });
  await fresh.client().enqueue(other, {}, { delay: "1h" });

  const listed = jsonOf(await run("jobs", "list", "--kind", "ad*", "--json")) as JobPage;
  const ended = await run("jobs", "cancel", "--kind", "ad*", "--reason", "left us", "--yes");

  expect(listed.jobs.map(({ kind }) => kind)).toEqual(["add", "add"]);
  expect(ended).toMatchObject({ code: 0 });
  expect(await inState(fresh, "cancelled")).toBe(2);
  expect(await inState(fresh, "scheduled")).toBe(1);
});

test("a dry run shows the effect and changes nothing", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await some(fresh, 12, "acme");

  const text = await run("jobs", "cancel", "--tenant", "acme", "--dry-run");

  expect(text).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^ID +KIND[^]*\nWould cancel 12 jobs\.\n$/) as string,
  });
  expect(text.stdout.trimEnd().split("\n")).toHaveLength(1 + 10 + 1);
  expect(await inState(fresh, "scheduled")).toBe(12);
});

test("many jobs are cancelled, replayed and run now, with the reason in each audit row", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await some(fresh, 5, "acme");
  await some(fresh, 2, "other");

  const cancelled = await run("jobs", "cancel", "--tenant", "acme", "--reason", "left us", "--yes");
  const replayed = jsonOf(
    await run("jobs", "replay", "--state", "cancelled", "--reason", "came back", "--yes", "--json"),
  ) as Operation;
  const ran = await run("jobs", "run-now", "--all", "--reason", "no time", "--yes");
  const none = await run("jobs", "replay", "--all", "--reason", "x", "--yes");

  expect(cancelled).toMatchObject({ code: 0, stdout: "Cancelled 5 jobs.\n" });
  expect(replayed).toMatchObject({
    state: "finished",
    done: 5,
    skipped: 0,
    matched: { count: 5, capped: false },
  });
  expect(ran).toMatchObject({ code: 0, stdout: "Made ready 2 jobs.\n" });
  expect(none).toMatchObject({ code: 0, stdout: "", stderr: "No such job: nothing to replay.\n" });
  expect(await inState(fresh, "ready")).toBe(7);
  expect(
    await fresh.sql(`select action, reason, count(*)::int as jobs from stint.audit group by 1, 2 order by 1`),
  ).toEqual([
    { action: "cancel", reason: "left us", jobs: 5 },
    { action: "replay", reason: "came back", jobs: 5 },
    { action: "run-now", reason: "no time", jobs: 2 },
  ]);
  expect(await fresh.sql(`select distinct actor like 'cli%' as cli from stint.audit`)).toEqual([
    { cli: true },
  ]);
});

const refused: [string[], string][] = [
  [["cancel"], "Give the id of a job; or say which jobs"],
  [["cancel", "--all", "--kind", "add", "--reason", "x"], "--all goes without any filter"],
  [["cancel", "019a8a2c-1f00-7000-8000-0123456789ab", "--kind", "add"], "not both"],
  [["cancel", "--kind", "add"], "--reason: is required"],
  [["cancel", "--kind", "add", "--reason", "x"], "add --yes if you are sure"],
  [["cancel", "--kind", "add", "--reason", "x", "--json"], "add --yes if you are sure"],
  [["replay", "--state", "ready", "--reason", "x", "--yes"], "replay is for jobs that are dead or cancelled"],
  [["replay", "019a8a2c-1f00-7000-8000-0123456789ab"], "reason: is required"],
];

test("ambiguous or unconfirmed commands are wrong usage and change nothing", async () => {
  const fresh = await freshSchema();
  const run = stintOn(fresh);
  await some(fresh, 3, "acme");

  const runs = await Promise.all(refused.map(([args]) => run("jobs", ...args)));

  for (const [index, ended] of runs.entries()) {
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(refused[index]![1]) as string });
  }
  expect(await inState(fresh, "scheduled")).toBe(3);
  expect(await fresh.sql(`select from stint.operation`)).toEqual([]);
});

test("Ctrl-C aborts between two batches, prints the progress, and ends the operation", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select stint.new_id(), 'add', 'sums', 'scheduled', now() + interval '1 hour', now(), '{}'
     from generate_series(1, 8000)`,
  );
  const running = start(["jobs", "cancel", "--all", "--reason", "drill", "--yes", "--schema", fresh.schema], {
    env: { DATABASE_URL: fresh.url },
  });

  await running.wrote(" of 8,000 jobs …");
  running.process.kill("SIGINT");
  const ended = await running.ended;

  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain("It was aborted. To continue with what is left, run it again.");
  const [operation] = await fresh.sql<{ state: string; done: number }>(
    `select state, done from stint.operation`,
  );
  expect(operation?.state).toBe("aborted");
  expect(ended.stdout).toBe(`Cancelled ${operation?.done.toLocaleString("en-US")} jobs.\n`);
  expect(await inState(fresh, "cancelled")).toBe(operation?.done);
});
