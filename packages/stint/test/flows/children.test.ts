import { expect, test } from "vitest";
import { defineJob, entry, handle, typed, type Enqueued, type Stint } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { sessions } from "../sql/sessions.ts";

const parent = defineJob("parent", { payload: typed<{ depth: number }>(), result: typed<number>() });
const child = defineJob("child", { queue: "later", payload: typed<object>(), result: typed<number>() });
const other = defineJob("other", { payload: typed<object>(), result: typed<number>() });

/** A parent that waits for two children, one of which may be a parent itself; and one child that it does not wait for. */
async function waitingParent(stint: Stint, depth = 1): Promise<Enqueued> {
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(parent, ({ payload, spawn, waitForChildren }) => {
        spawn(child, {});
        if (payload.depth > 1) spawn(parent, { depth: payload.depth - 1 });
        return waitForChildren();
      }),
    ],
  });
  await worker.start();
  const job = await stint.enqueue(parent, { depth });
  await until(async () => (await stint.list({ kind: "child", queue: "later" })).jobs.length === depth, {
    message: "the children exist",
  });
  await worker.stop();
  return job;
}

async function statesOf(fresh: Fresh): Promise<Record<string, number>> {
  const rows = await fresh.sql<{ state: string; n: number }>(
    `select kind || ' ' || state as state, count(*)::integer as n from stint.jobs group by 1`,
  );
  return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
}

test("cancelling a parent cancels the children that it waits for, and theirs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await waitingParent(stint, 3);

  expect(await stint.cancel(job.id, { reason: "no more" })).toBe("cancelled");
  expect(await statesOf(fresh)).toEqual({ "parent cancelled": 3, "child cancelled": 3 });
  const { jobs } = await stint.list({ kind: "child" });
  expect(jobs.map(({ reason }) => reason)).toEqual(Array(3).fill("the job that waits for it was cancelled"));
});

test("a bulk cancel of parents cancels their children", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await waitingParent(stint);
  await actOnMany(fresh.db, "cancel", {
    ids: [id],
    auditIds: [newId()],
    states: ["parked"],
    until: "infinity",
    actor: "tester",
    reason: "because",
  });

  expect(await statesOf(fresh)).toEqual({ "parent cancelled": 1, "child cancelled": 1 });
});

test("a running child of a cancelled parent is asked to stop, and runs no second time", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await waitingParent(stint);
  let started: () => void = () => undefined;
  const entered = new Promise<void>((resolve) => (started = resolve));
  let attempts = 0;
  const stops = handle(child, async ({ signal }) => {
    attempts += 1;
    started();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
    return 1;
  });
  await stint.worker({ pools: { later: 1 }, handlers: [stops] }).start();
  await entered;

  await stint.cancel(job.id);
  await until(async () => (await statesOf(fresh))["child cancelled"] === 1, {
    message: "the child has ended",
  });
  expect(attempts).toBe(1);
});

test("children that no job waits for outlive their parent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const spawns = handle(parent, ({ spawn }) => {
    spawn(child, {});
    return 1;
  });
  await stint.worker({ pools: { default: 1 }, handlers: [spawns] }).start();
  const job = await stint.enqueue(parent, { depth: 1 });
  await stint.waitFor(job, { timeout: "60s" });

  await expect(stint.cancel(job.id)).rejects.toThrow(/succeeded/);
  expect(await statesOf(fresh)).toEqual({ "parent succeeded": 1, "child ready": 1 });
});

test("a job of another flow that waits for a cancelled child follows its policy", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await waitingParent(stint);
  const [waited] = (await stint.list({ kind: "child" })).jobs;
  const flow = await stint.flow("g", {
    parks: entry(other, {}, { after: [waited!.id] }),
    cancels: entry(other, {}, { after: [waited!.id], onFailure: "cancel" }),
  });

  await stint.cancel(job.id);
  expect(await stint.get(flow.jobs.parks)).toMatchObject({ state: "parked", parkReason: "blocked" });
  expect(await stint.get(flow.jobs.cancels)).toMatchObject({ state: "cancelled" });
});

test("a child whose row was locked for a moment is cancelled with its parent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await waitingParent(stint, 2);
  // The first try of the cancel skips the locked child, and waits when it ends the other one. So it tries again after the release.
  const lock = `hashtextextended('${fresh.schema}', 0)`;
  await fresh.sql(`create function stint.wait_here() returns trigger language plpgsql as $$
    begin
      perform pg_advisory_xact_lock(${lock});
      return null;
    end $$`);
  await fresh.sql(`create trigger wait_here after delete on stint.job for each row
    when (old.kind = 'parent' and old.id <> '${job.id}') execute function stint.wait_here()`);
  const [holder] = await sessions(fresh, 1);
  await holder!.begin();
  await holder!.client.query(`select pg_advisory_xact_lock(${lock})`);
  const locked = await holder!.client.query(
    `select from "${fresh.schema}".job j join "${fresh.schema}".flow_job f on f.job_id = j.id
     where f.parent_id = $1 and j.kind = 'child' for update of j`,
    [job.id],
  );
  expect(locked.rowCount).toBe(1);

  const cancelling = stint.cancel(job.id);
  const waiting = `select from pg_stat_activity where wait_event = 'advisory' and query like '%' || $1 || '%'`;
  await until(async () => (await fresh.sql(waiting, [fresh.schema])).length === 1, {
    message: "the cancel has skipped the locked child",
  });
  await holder!.commit();
  expect(await cancelling).toBe("cancelled");
  expect(await statesOf(fresh)).toEqual({ "parent cancelled": 2, "child cancelled": 2 });
});

test("a replayed parent names the cancelled child, and runs after a replay of that", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await waitingParent(stint);
  const [waited] = (await stint.list({ kind: "child" })).jobs;
  await stint.cancel(job.id);
  await stint.replay(job.id, { reason: "a mistake" });
  expect(await stint.get(job)).toMatchObject({
    parkReason: "blocked",
    reason: `it waits for child ${waited!.id}, which is cancelled`,
  });

  await stint.replay(waited!.id, { reason: "a mistake" });
  const handlers = [
    handle(parent, async ({ results }) => (await results(child)).length),
    handle(child, () => 1),
  ];
  await stint.worker({ pools: { default: 1, later: 1 }, handlers }).start();
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(1);
});
