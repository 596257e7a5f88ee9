import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { actOnMany, type Acted, type Batch } from "#stint/sql/operate-many.js";
import { finish } from "#stint/sql/finish.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, stored, take } from "./jobs.ts";

const states = {
  cancel: ["scheduled", "ready", "running", "retrying", "parked"],
  "run-now": ["scheduled", "retrying", "parked"],
  replay: ["dead", "cancelled"],
} as const;

function batch(action: keyof typeof states, ids: readonly string[]): Batch {
  const auditIds = ids.map(() => newId());
  return { ids, auditIds, states: states[action], until: "infinity", actor: "ann", reason: "drill" };
}

/** How many audit rows there are for how many jobs. */
async function audited(fresh: Fresh): Promise<[number, number]> {
  const [row] = await fresh.sql<{ rows: number; jobs: number }>(
    `select count(*)::integer as rows, count(distinct job_id)::integer as jobs from stint.audit`,
  );
  return [row!.rows, row!.jobs];
}

const idsOf = (acted: readonly Acted[]): string[] => acted.map(({ id }) => id).sort();

async function enqueued(fresh: Fresh, count: number, job = {}): Promise<string[]> {
  return (
    await add(
      fresh.db,
      Array.from({ length: count }, () => job),
    )
  ).map(({ id }) => id);
}

test("a cancel repeated after a lost reply counts once, for waiting and running jobs", async () => {
  const fresh = await freshSchema();
  const ids = await enqueued(fresh, 6);
  await take(fresh.db, { limit: 3 });
  const sent = batch("cancel", ids);
  const first = await actOnMany(fresh.db, "cancel", sent);
  const second = await actOnMany(fresh.db, "cancel", sent);

  expect(idsOf(first)).toEqual(ids.toSorted());
  expect(idsOf(second)).toEqual(ids.toSorted());
  // Their workers must still be notified: that notification may also have been lost.
  expect(second.filter(({ was }) => was === "running")).toHaveLength(3);
  expect(await audited(fresh)).toEqual([6, 6]);
});

test("a repeated run-now or replay leaves jobs that have moved on unchanged", async () => {
  const fresh = await freshSchema();
  const waiting = await enqueued(fresh, 2, { delay_ms: 3_600_000 });
  const now = batch("run-now", waiting);
  await actOnMany(fresh.db, "run-now", now);
  const claimed = await take(fresh.db, { limit: 2 });
  await fresh.sql(
    `update stint.job set state = 'retrying', lease_id = null, run_at = now() + interval '1 hour' where id = $1`,
    [waiting[0]],
  );
  expect(idsOf(await actOnMany(fresh.db, "run-now", now))).toEqual(waiting.toSorted());
  expect((await stored(fresh, waiting[0]!)).state).toBe("retrying");

  const dies = claimed.filter(({ fence }) => fence.job === waiting[1]).map(({ fence }) => fence);
  const die = async (fences: typeof dies): Promise<unknown> =>
    await finish(
      fresh.db,
      fences.map((fence) => ({
        fence,
        state: "dead",
        result: null,
        reason: "boom",
        ending: { outcome: "failed" },
      })),
    );
  await die(dies);
  const again = batch("replay", [waiting[1]!]);
  await actOnMany(fresh.db, "replay", again);
  await die((await take(fresh.db)).map(({ fence }) => fence));
  expect(await actOnMany(fresh.db, "replay", again)).toEqual([{ id: waiting[1], queue: null, was: null }]);

  expect(await stored(fresh, waiting[1]!)).toMatchObject({ state: "dead", run: 2 });
  expect(await audited(fresh)).toEqual([3, 2]);
});

test("a repeat sent while the first is in flight counts once and reports every job", async () => {
  const fresh = await freshSchema();
  const ids = await enqueued(fresh, 100);
  await take(fresh.db, { limit: 50 });
  const sent = batch("cancel", ids);
  await Promise.all([1, 2, 3, 4].map(async () => await actOnMany(fresh.db, "cancel", sent)));

  expect(idsOf(await actOnMany(fresh.db, "cancel", sent))).toEqual(ids.toSorted());
  expect(await audited(fresh)).toEqual([100, 100]);
});
