import { expect, test } from "vitest";
import type { IdleCheck } from "#stint/sql/idle-check.js";
import { fold } from "#stint/sql/tallies.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { idleCheck } from "../support/idle-check.ts";
import { add, addOne, running } from "./jobs.ts";

async function look(fresh: Fresh, input: { queues?: string[]; since?: string } = {}): Promise<IdleCheck> {
  return await idleCheck(fresh.db, { queues: ["main"], kinds: ["work"], since: "-infinity", ...input });
}

const nothing = { ready: false, suspect: false, dueInMs: { promote: null, rescue: null } };

test("without work, a check reports none, and its time", async () => {
  const fresh = await freshSchema();
  // Everything has been sampled in this hour.
  await fold(fresh.db, 0);
  const [{ before } = { before: new Date() }] = await fresh.sql<{ before: Date }>(
    "select clock_timestamp() as before",
  );
  const seen = await look(fresh);

  expect(seen).toEqual({
    ...nothing,
    dueInMs: {
      promote: null,
      deliver: null,
      schedules: null,
      expire: null,
      rescue: null,
      pauses: null,
      limits: null,
      "claim-order": null,
      admission: null,
      dependencies: null,
      latest: null,
      tallies: null,
    },
    at: expect.any(String) as string,
    serverMs: expect.any(Number) as number,
  });
  expect(new Date(seen.at).getTime()).toBeGreaterThanOrEqual(before.getTime());
  expect(Math.abs(seen.serverMs - new Date(seen.at).getTime())).toBeLessThan(1_000);
});

test("a check sees a ready job of the given queues and kinds only", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ queue: "side" }, { kind: "other" }]);

  expect(await look(fresh)).toMatchObject(nothing);
  expect(await look(fresh, { queues: [] })).toMatchObject(nothing);
  expect(await look(fresh, { queues: ["main", "side"] })).toMatchObject({ ...nothing, ready: true });
});

test("a check sees quarantined jobs of its queues and kinds, no other parked ones", async () => {
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

test("a check reports the first due job of any queue and kind, and how late it is", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{ delay_ms: 90_000 }, { delay_ms: 60_000, queue: "side", kind: "other" }]);
  const { dueInMs, ...rest } = await look(fresh);
  expect(rest).toMatchObject({ ready: false, suspect: false });
  expect(dueInMs["rescue"]).toBeNull();
  expect(dueInMs["promote"]).toBeGreaterThan(50_000);
  expect(dueInMs["promote"]).toBeLessThanOrEqual(60_000);

  await fresh.sql(
    "update stint.job set state = 'retrying', run_at = now() - interval '2 s' where queue = 'side'",
  );
  expect((await look(fresh)).dueInMs["promote"]).toBeLessThanOrEqual(-2_000);
});

test("a check reports the first lease to run out, of any queue and kind", async () => {
  const fresh = await freshSchema();
  const [one, two] = [await running(fresh.db), await running(fresh.db)];
  await fresh.sql(
    "update stint.job set kind = 'other', queue = 'side', lease_until = now() + $2 where id = $1",
    [one.job, "10 s"],
  );
  const { dueInMs, ...rest } = await look(fresh);
  expect(rest).toMatchObject({ ready: false, suspect: false });
  expect(dueInMs["promote"]).toBeNull();
  expect(dueInMs["rescue"]).toBeGreaterThan(5_000);
  expect(dueInMs["rescue"]).toBeLessThanOrEqual(10_000);

  await fresh.sql("update stint.job set lease_until = now() - interval '1 s' where id = $1", [two.job]);
  expect((await look(fresh)).dueInMs["rescue"]).toBeLessThanOrEqual(-1_000);
});

test("a check leaves out what was due well before the last one, not just before it", async () => {
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
  expect(seen.dueInMs["promote"]).toBeLessThan(0);
  expect(seen.dueInMs["rescue"]).toBeLessThan(0);
});
