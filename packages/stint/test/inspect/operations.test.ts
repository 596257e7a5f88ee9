import { expect, test } from "vitest";
import type { JobFilter, Operation } from "#stint/inspect.js";
import { defineJob, handle, typed } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { finish } from "#stint/sql/finish.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { add, addOne, running, stored, take } from "../sql/jobs.ts";
import { operationsOf } from "./inspectors.ts";

const why = { reason: "drill", actor: "ann" };

async function ended(operations: ReturnType<typeof operationsOf>, id: string): Promise<Operation> {
  return await until(async () => {
    const found = await operations.operation(id);
    return found?.state === "running" ? undefined : found;
  }).then((operation) => operation as Operation);
}

async function dead(fresh: Fresh, count: number): Promise<string[]> {
  await add(
    fresh.db,
    Array.from({ length: count }, () => ({ key: "k" })),
  );
  const claimed = await take(fresh.db, { limit: count });
  await finish(
    fresh.db,
    claimed.map(({ fence }) => ({
      fence,
      state: "dead",
      result: null,
      reason: "boom",
      ending: { outcome: "failed" },
    })),
  );
  return claimed.map(({ fence }) => fence.job);
}

/** Tallies against the truth, for every queue and kind. */
async function tallyFaults(fresh: Fresh): Promise<unknown[]> {
  return await fresh.sql(
    `select d.queue, d.kind from stint.depth d
     full join (
       select queue, kind, priority, count(*) filter (where state <> 'dead') as live,
         count(*) filter (where state = 'scheduled') as scheduled, count(*) filter (where state = 'retrying') as retrying,
         count(*) filter (where state = 'parked') as parked, count(*) filter (where state = 'dead') as dead
       from (
         select queue, kind, priority, state from stint.job
         union all
         select queue, kind, priority, state from stint.history where state = 'dead'
       ) jobs
       group by queue, kind, priority
     ) t using (queue, kind, priority)
     where (coalesce(d.live, 0), coalesce(d.scheduled, 0), coalesce(d.retrying, 0), coalesce(d.parked, 0), coalesce(d.dead, 0))
       is distinct from
       (coalesce(t.live, 0), coalesce(t.scheduled, 0), coalesce(t.retrying, 0), coalesce(t.parked, 0), coalesce(t.dead, 0))`,
  );
}

test("a preview counts, shows ten, and changes nothing", async () => {
  const fresh = await freshSchema();
  const ids = await dead(fresh, 25);
  const operations = operationsOf(fresh);

  const preview = await operations.preview("replay", { kind: "work" });

  expect(preview.matched).toEqual({ count: 25, capped: false });
  expect(preview.sample.map((job) => job.id)).toEqual(ids.sort().reverse().slice(0, 10));
  expect((await operations.preview("replay", { state: "cancelled" })).matched.count).toBe(0);
  expect((await operations.preview("cancel", {})).matched.count).toBe(0);
  expect(await operations.operations()).toEqual([]);
  expect(await fresh.sql(`select from stint.history where state = 'dead'`)).toHaveLength(25);
});

test("a bulk replay requeues each job once, with an audit row each and a wake", async () => {
  const fresh = await freshSchema();
  await dead(fresh, 250);
  const operations = operationsOf(fresh);

  const begun = await operations.begin("replay", { state: "dead", since: new Date(0) }, why);
  const done = await ended(operations, begun.id);

  expect(begun).toMatchObject({ state: "running", matched: { count: 250, capped: false }, ...why });
  expect(done).toMatchObject({
    state: "finished",
    done: 250,
    skipped: 0,
    filter: { state: "dead", since: new Date(0) },
    endedAt: expect.any(Date) as Date,
  });
  expect(
    await fresh.sql(`select from stint.job where state = 'ready' and run = 2 and attempts = 0`),
  ).toHaveLength(250);
  expect(await fresh.sql(`select from stint.history`)).toHaveLength(0);
  expect(
    await fresh.sql(
      `select count(*)::int as rows, count(distinct job_id)::int as jobs, min(reason) as reason, min(actor) as actor
       from stint.audit where action = 'replay'`,
    ),
  ).toEqual([{ rows: 250, jobs: 250, reason: "drill", actor: "ann" }]);
  expect(new Set(operations.hints)).toEqual(new Set(["ready:main"]));
  expect(await tallyFaults(fresh)).toEqual([]);
});

test("a bulk cancel ends waiting jobs and requests the end of running ones", async () => {
  const fresh = await freshSchema();
  const runs = await running(fresh.db);
  const waits = await addOne(fresh.db);
  const later = await addOne(fresh.db, { delay_ms: 60_000 });
  const spared = await addOne(fresh.db, { queue: "b" });
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("cancel", { queue: "main" }, why);

  expect(await ended(operations, id)).toMatchObject({ state: "finished", done: 3, skipped: 0 });
  expect(await stored(fresh, runs.job)).toMatchObject({
    state: "running",
    cancel_requested: true,
    lease_id: runs.leaseId,
  });
  for (const job of [waits, later]) {
    expect(await stored(fresh, job)).toMatchObject({ state: "cancelled", reason: "drill" });
  }
  expect(await stored(fresh, spared)).toMatchObject({ state: "ready" });
  expect(operations.hints).toEqual(["cancel"]);
  expect(await tallyFaults(fresh)).toEqual([]);
});

test("a bulk run-now makes waiting jobs of the requested states ready", async () => {
  const fresh = await freshSchema();
  const later = await addOne(fresh.db, { delay_ms: 60_000 });
  const parked = await addOne(fresh.db);
  await fresh.sql(`update stint.job set state = 'parked', park_reason = 'quarantine' where id = $1`, [
    parked,
  ]);
  await fresh.sql(`select stint.recount()`);
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("run-now", { state: ["scheduled", "ready", "dead"] }, why);

  expect(await ended(operations, id)).toMatchObject({ state: "finished", done: 1 });
  expect(await stored(fresh, later)).toMatchObject({ state: "ready" });
  expect(await stored(fresh, parked)).toMatchObject({ state: "parked" });
  expect(await tallyFaults(fresh)).toEqual([]);
});

test("jobs enqueued after an operation began are not touched, even with lower ids", async () => {
  const fresh = await freshSchema();
  const old = await add(
    fresh.db,
    Array.from({ length: 300 }, () => ({ id: newId() })),
  );
  const low = "00000000-0000-7000-8000-000000000001";
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("cancel", { state: "ready" }, why);
  const [newer] = await add(fresh.db, [{ id: newId() }, { id: low }]);

  expect(await ended(operations, id)).toMatchObject({ state: "finished", done: old.length });
  expect(await stored(fresh, newer?.id ?? "")).toMatchObject({ state: "ready" });
  expect(await stored(fresh, low)).toMatchObject({ state: "ready" });
});

test("an operation is aborted between two batches, and finished batches stay", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 1_000 }, () => ({ delay_ms: 60_000 })),
  );
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("cancel", {}, why);
  await until(async () => ((await operations.operation(id))?.done ?? 0) > 0);
  await operations.abort(id);

  const { state, done } = await ended(operations, id);
  expect(state).toBe("aborted");
  expect(done).toBeLessThan(1_000);
  expect(await fresh.sql(`select from stint.job`)).toHaveLength(1_000 - done);
  expect(await operations.abort(newId())).toBeUndefined();
});

test("a locked job is tried again, and skipped if it stays locked", async () => {
  const fresh = await freshSchema();
  const [held = "", free = ""] = (await add(fresh.db, [{}, {}])).map((job) => job.id);
  const other = await adminClient(fresh.url);
  await other.query("begin");
  await other.query(`select from "${fresh.schema}".job where id = $1 for update`, [held]);
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("cancel", {}, why);
  const done = await ended(operations, id);
  await other.query("rollback");
  await other.end();

  expect(done).toMatchObject({ state: "finished", done: 1, skipped: 1 });
  expect(await stored(fresh, free)).toMatchObject({ state: "cancelled" });
  expect(await stored(fresh, held)).toMatchObject({ state: "ready" });
});

test("an operation is abandoned at once on close, and a minute after its process died", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 1_000 }, () => ({})),
  );
  const operations = operationsOf(fresh);
  const { id } = await operations.begin("cancel", {}, why);
  await until(async () => ((await operations.operation(id))?.done ?? 0) > 0);

  await operations.stop();
  const closed = await operations.operation(id);
  await fresh.sql(`update stint.operation set state = 'running', ended_at = null where id = $1`, [id]);
  const alive = await operations.operation(id);
  await fresh.sql(`update stint.operation set progressed_at = now() - interval '61 seconds' where id = $1`, [
    id,
  ]);
  const silent = await operations.operation(id);
  const aborted = await operations.abort(id);

  expect(closed).toMatchObject({ state: "abandoned", error: "its process was closed" });
  expect(alive).toMatchObject({ state: "running" });
  expect(silent).toMatchObject({ state: "abandoned" });
  expect(aborted).toMatchObject({ state: "aborted" });
});

test("a database error is not stored, as it may name hosts and users", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, {});
  await fresh.sql(
    `create function stint.refuse() returns trigger language plpgsql as $$ begin raise 'boss at 10.1.2.3 said no'; end $$`,
  );
  await fresh.sql(`create trigger refuse before delete on stint.job execute function stint.refuse()`);
  const operations = operationsOf(fresh);

  const { id } = await operations.begin("cancel", {}, why);

  expect(await ended(operations, id)).toMatchObject({
    state: "abandoned",
    done: 0,
    error: "the database refused it (SQLSTATE P0001)",
  });
});

test("an operation that is started again continues with the remaining jobs", async () => {
  const fresh = await freshSchema();
  await dead(fresh, 200);
  const first = operationsOf(fresh);
  const one = await first.begin("replay", {}, why);
  await until(async () => ((await first.operation(one.id))?.done ?? 0) > 0);
  await first.stop();
  const second = operationsOf(fresh);

  const two = await second.begin("replay", {}, why);
  await ended(second, two.id);

  expect(await fresh.sql(`select from stint.job where run = 2`)).toHaveLength(200);
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(200);
  expect((await second.operations()).map((operation) => operation.id)).toEqual([two.id, one.id]);
});

const refused: [Parameters<ReturnType<typeof operationsOf>["begin"]>, string][] = [
  [["replay", { state: "ready" }, why], "replay is for jobs that are dead or cancelled"],
  [["explode" as "cancel", {}, why], "action: must be"],
  [["cancel", { quue: "a" } as JobFilter, why], 'did you mean "queue"'],
  [["cancel", {}, { actor: "ann" } as typeof why], "begin.reason: is required"],
  [["cancel", {}, { ...why, reason: "" }], "begin.reason: must not be empty"],
  [["cancel", {}, { reason: "x" } as typeof why], "begin.actor"],
];

test.each(refused)("begin(%j) is refused and nothing is recorded", async (args, message) => {
  const fresh = await freshSchema();
  const operations = operationsOf(fresh);

  await expect(operations.begin(...args)).rejects.toThrow(message);

  expect(await operations.operations()).toEqual([]);
});

test("bulk operations notify workers: a replay runs, and a cancel reaches the handler", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = defineJob("work", { payload: typed<null>(), queue: "main" });
  await dead(fresh, 3);
  const operations = operationsOf(fresh);
  await startWorker(stint, {
    pools: { main: 2 },
    // A handler's signal aborts when its lease is renewed, after a third of it.
    lease: "3s",
    handlers: [
      handle(job, async ({ signal, key }) => {
        if (key === "k") return;
        await new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason as Error)));
      }),
    ],
  });

  await operations.begin("replay", {}, why);
  await until(
    async () => (await fresh.sql(`select from stint.history where state = 'succeeded'`)).length === 3,
  );
  const { id } = await stint.enqueue(job, null);
  await until(async () => (await stint.get(id))?.state === "running");
  await operations.begin("cancel", { state: "running" }, why);
  await until(async () => (await stint.get(id))?.state === "cancelled");

  expect(await stint.audit(id)).toMatchObject([{ action: "cancel", actor: "ann" }]);
});

test("a bulk cancel among busy workers loses no job and counts each once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = defineJob("work", { payload: typed<null>(), queue: "main" });
  await add(
    fresh.db,
    Array.from({ length: 1_000 }, () => ({})),
  );
  const operations = operationsOf(fresh);
  await startWorker(stint, { pools: { main: 8 }, handlers: [handle(job, () => undefined)] });
  await until(async () => (await fresh.sql(`select from stint.history limit 1`)).length === 1);

  const { id } = await operations.begin("cancel", {}, why);
  await ended(operations, id);
  await until(async () => (await fresh.sql(`select from stint.job limit 1`)).length === 0);

  expect(
    await fresh.sql(`select count(*)::int as jobs, count(distinct id)::int as ids from stint.history`),
  ).toEqual([{ jobs: 1_000, ids: 1_000 }]);
  expect(await tallyFaults(fresh)).toEqual([]);
});

test("two concurrent replays of the same jobs requeue each once", async () => {
  const fresh = await freshSchema();
  await dead(fresh, 300);
  const operations = operationsOf(fresh);

  const begun = await Promise.all([1, 2].map(() => operations.begin("replay", {}, why)));
  const both = await Promise.all(begun.map(({ id }) => ended(operations, id)));

  expect(both.map((one) => one.state)).toEqual(["finished", "finished"]);
  expect(both.reduce((sum, one) => sum + one.done, 0)).toBe(300);
  expect(await fresh.sql(`select from stint.job where run = 2`)).toHaveLength(300);
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(300);
  expect(await tallyFaults(fresh)).toEqual([]);
});

test("a fifth concurrent operation is refused, unless one of four is aborted or died", async () => {
  const fresh = await freshSchema();
  const operations = operationsOf(fresh);
  const others = Array.from({ length: 4 }, newId);
  await fresh.sql(
    `insert into stint.operation (id, action, filter, reason, actor, matched, matched_capped)
     select id, 'cancel', '{}', 'another process does it', 'bob', 1, false from unnest($1::uuid[]) id`,
    [others],
  );

  await expect(operations.begin("replay", {}, why)).rejects.toMatchObject({ code: "TOO_MANY_OPERATIONS" });
  expect(await operations.operations()).toHaveLength(4);
  await fresh.sql(
    `update stint.operation set progressed_at = clock_timestamp() - interval '2 minutes' where id = $1`,
    [others[0]],
  );
  const { id } = await operations.begin("replay", {}, why);
  expect((await ended(operations, id)).state).toBe("finished");
});
