import { expect, test } from "vitest";
import { idleCheck, type IdleCheck } from "#stint/sql/idle-check.js";
import { fold } from "#stint/sql/tallies.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne, running } from "./jobs.ts";

async function look(fresh: Fresh, input: { queues?: string[]; since?: string } = {}): Promise<IdleCheck> {
  return await idleCheck(fresh.db, { queues: ["main"], kinds: ["work"], since: "-infinity", ...input });
}

const nothing = { ready: false, suspect: false, dueInMs: null, expiresInMs: null };

test("where there is nothing, it says so, and when", async () => {
  const fresh = await freshSchema();
  // Everything has been sampled in this hour.
  await fold(fresh.db, 0);
  const [{ before } = { before: new Date() }] = await fresh.sql<{ before: Date }>(
    "select clock_timestamp() as before",
  );
  const seen = await look(fresh);

  expect(seen).toEqual({
    ...nothing,
    unfolded: false,
    at: expect.any(String) as string,
    serverMs: expect.any(Number) as number,
  });
  expect(new Date(seen.at).getTime()).toBeGreaterThanOrEqual(before.getTime());
  expect(Math.abs(seen.serverMs - new Date(seen.at).getTime())).toBeLessThan(1_000);
});

test("a ready job is seen if it is of a queue and a kind that were asked for", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "side" }, { kind: "other" }]);

  expect(await look(fresh)).toMatchObject(nothing);
  expect(await look(fresh, { queues: [] })).toMatchObject(nothing);
  expect(await look(fresh, { queues: ["main", "side"] })).toMatchObject({ ...nothing, ready: true });
});

test("a suspect is seen if it is of a queue and a kind that were asked for; other parked jobs are not", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db);
  await fresh.sql("update stint.job set state = 'parked', park_reason = 'review'");
  expect(await look(fresh)).toMatchObject(nothing);
  await fresh.sql("update stint.job set park_reason = 'quarantine'");

  expect(await look(fresh)).toMatchObject({ ...nothing, suspect: true });
  expect(await look(fresh, { queues: ["side"] })).toMatchObject(nothing);
  await fresh.sql("update stint.job set kind = 'other'");
  expect(await look(fresh)).toMatchObject(nothing);
});

test("the first job to be due is told, of whatever queue and kind, and how late it is", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ delay_ms: 90_000 }, { delay_ms: 60_000, queue: "side", kind: "other" }]);
  const { dueInMs, ...rest } = await look(fresh);
  expect(rest).toMatchObject({ ready: false, suspect: false, expiresInMs: null });
  expect(dueInMs).toBeGreaterThan(50_000);
  expect(dueInMs).toBeLessThanOrEqual(60_000);

  await fresh.sql(
    "update stint.job set state = 'retrying', run_at = now() - interval '2 s' where queue = 'side'",
  );
  expect((await look(fresh)).dueInMs).toBeLessThanOrEqual(-2_000);
});

test("the first lease to run out is told, of whatever queue and kind", async () => {
  const fresh = await freshSchema();
  const [one, two] = [await running(fresh.db), await running(fresh.db)];
  await fresh.sql(
    "update stint.job set kind = 'other', queue = 'side', lease_until = now() + $2 where id = $1",
    [one.job, "10 s"],
  );
  const { expiresInMs, ...rest } = await look(fresh);
  expect(rest).toMatchObject({ ready: false, suspect: false, dueInMs: null });
  expect(expiresInMs).toBeGreaterThan(5_000);
  expect(expiresInMs).toBeLessThanOrEqual(10_000);

  await fresh.sql("update stint.job set lease_until = now() - interval '1 s' where id = $1", [two.job]);
  expect((await look(fresh)).expiresInMs).toBeLessThanOrEqual(-1_000);
});

test("what was due, or ran out, well before the last look is left out; what came just before it is not", async () => {
  const fresh = await freshSchema();
  const due = await addOne(fresh.db, { delay_ms: 60_000 });
  const { job: lost } = await running(fresh.db);
  const set = async (ago: string): Promise<void> => {
    await fresh.sql("update stint.job set run_at = now() - $2::interval where id = $1", [due, ago]);
    await fresh.sql("update stint.job set lease_until = now() - $2::interval where id = $1", [lost, ago]);
  };
  const { at } = await look(fresh);
  await set("1 hour");
  expect(await look(fresh, { since: at })).toMatchObject(nothing);
  await set("3 s");
  const seen = await look(fresh, { since: at });
  expect(seen.dueInMs).toBeLessThan(0);
  expect(seen.expiresInMs).toBeLessThan(0);
});
