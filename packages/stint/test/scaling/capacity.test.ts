import { expect, test } from "vitest";
import { defineDependency, defineJob, handle, typed } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const note = defineJob("note", { queue: "notes", payload: typed<object>() });
const pools = [{ name: "notes", queues: ["notes"], slots: 10 }];

async function fill(fresh: Fresh, count: number, queue = "notes"): Promise<void> {
  await fresh.sql(
    `select stint.enqueue_many(
       (select jsonb_agg(jsonb_build_object('kind', 'note', 'payload', n, 'options', jsonb_build_object('queue', $1::text)))
        from generate_series(1, $2) n))`,
    [queue, count],
  );
}

test("an empty installation has a recommendation without nulls", async () => {
  const fresh = await freshSchema();
  const seen = await fresh.client().inspector().capacity({ pools });
  expect(seen).toMatchObject({
    workers: 0,
    recommended: 1,
    pools: [
      {
        pool: "notes",
        slots: 10,
        workers: 0,
        ready: 0,
        utilisation: null,
        drainMs: 0,
        needed: 0,
        recommended: 0,
        limitedBy: { factor: "none", name: null },
      },
    ],
  });
  expect((await fresh.client().inspector().capacity()).pools).toEqual([]);
});

test("a backlog without workers needs workers; an unserved queue needs one", async () => {
  const fresh = await freshSchema();
  const inspector = fresh.client().inspector();
  await fill(fresh, 3_000);
  const given = await inspector.capacity({ pools, target: "100s" });
  expect(given.pools[0]).toMatchObject({
    ready: 3_000,
    needed: 3,
    recommended: 3,
    limitedBy: { factor: "workers" },
  });
  expect(given.recommended).toBe(3);
  expect((await inspector.capacity({ pools, target: "100s", max: 2 })).recommended).toBe(2);

  const derived = await inspector.capacity();
  expect(derived.pools).toMatchObject([
    {
      pool: "notes",
      slots: null,
      needed: 1,
      recommended: 1,
      drainMs: null,
      limitedBy: { factor: "workers" },
    },
  ]);
});

test("a rule adds workers for a depth, but not for paused jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fill(fresh, 501);
  const rules = [{ depthAbove: 500, depthBelow: 50, add: 2 }];
  const read = async () => (await stint.inspector().capacity({ pools, rules, target: "1h" })).pools[0];
  expect(await read()).toMatchObject({ needed: 1, recommended: 3 });
  await stint.pauses.pause({ queue: "notes" }, { reason: "maintenance" });
  expect(await read()).toMatchObject({
    needed: 0,
    recommended: 0,
    drainMs: null,
    limitedBy: { factor: "pause", name: "queue:notes" },
  });
});

test("a live worker is counted with its slots, and a full limit is named", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql(`select stint.set_limit('queue:notes', 2, 'x')`);
  await fill(fresh, 5_000);
  const { worker, seen, all } = await startWorker(stint, {
    pools: { notes: 4 },
    abort: 0,
    handlers: [
      handle(
        note,
        async ({ signal }) => await new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ),
    ],
  });
  await seen("began", () => all("began").length === 2);
  const inspector = stint.inspector();
  // No pools are given: those of the live worker.
  const pool = await until(async () => {
    const [own] = (await inspector.capacity({ target: "100s" })).pools;
    return own?.limitedBy.factor === "limit" ? own : undefined;
  });
  expect(pool).toMatchObject({
    pool: "notes",
    slots: 4,
    workers: 1,
    needed: 1,
    recommended: 1,
    limitedBy: { factor: "limit", name: "queue:notes" },
  });
  expect(pool?.waiting).toBeGreaterThan(0);
  expect(pool?.utilisation).toBeGreaterThan(0);

  await worker.setSlots("notes", 0);
  const without = await inspector.capacity({ target: "100s" });
  expect(without).toMatchObject({ recommended: 1, pools: [{ slots: null, workers: 0, recommended: 1 }] });
  await worker.stop({ drain: 0, abort: 0 });
});

test("a dependency without tokens is named, and more workers are not recommended", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const call = defineJob("call", {
    queue: "notes",
    payload: typed<object>(),
    uses: [defineDependency("api", { rate: { limit: 1, per: "1h" } })],
  });
  const { worker } = await startWorker(stint, { pools: { notes: 1 }, handlers: [handle(call, () => null)] });
  await stint.enqueueMany(Array.from({ length: 500 }, () => ({ job: call, payload: {} })));
  const inspector = stint.inspector();
  const read = async () =>
    (await inspector.capacity({ pools: [{ name: "notes", queues: ["notes"], slots: 1 }], target: "10s" }))
      .pools[0];
  const pool = await until(async () => {
    const own = await read();
    return own?.ready === 0 ? own : undefined;
  });
  expect(pool).toMatchObject({
    waiting: 499,
    limitedBy: {
      factor: "dependency",
      name: "dependency:api",
      text: "Dependency api is saturated; 499 jobs wait for it: more workers will not help",
    },
  });
  expect(pool?.recommended).toBeLessThanOrEqual(1);
  await stint.pauses.pause({ dependency: "api" }, { reason: "maintenance" });
  expect(await read()).toMatchObject({
    limitedBy: { factor: "pause", name: "dependency:api", text: expect.stringContaining("is paused") },
  });
  await worker.stop();
});

test("sessions of this installation that wait for a lock are the limiting factor", async () => {
  const fresh = await freshSchema();
  await fill(fresh, 3_000);
  const inspector = fresh.client().inspector();
  const lock = `begin; select from "${fresh.schema}".job order by id limit 1 for update`;
  const [holder, blocked] = [await adminClient(), await adminClient()];
  await holder.query(lock);
  const waiting = blocked.query(lock);
  const pool = await until(async () => {
    const seen = await inspector.capacity({ pools, target: "100s" });
    return seen.database.lockWaits > 0 ? seen.pools[0] : undefined;
  });
  // Three are needed, but more than one would only wait, too.
  expect(pool).toMatchObject({ needed: 3, recommended: 1, limitedBy: { factor: "lock-waits" } });
  await holder.end();
  await waiting;
  await blocked.end();
});

test.each<[string, object]>([
  ["capacity.pools", { pools: [] }],
  ["capacity.pools[0]", { pools: [null] }],
  ["capacity.pools[0].slots", { pools: [{ name: "a", queues: ["a"], slots: 0 }] }],
  ["capacity.pools[0].queues", { pools: [{ name: "a", queues: [], slots: 1 }] }],
  ["capacity.pools[0].queues", { pools: [{ name: "a", queues: ["a b"], slots: 1 }] }],
  ["capacity.target", { target: "1ms" }],
  ["capacity.max", { max: 0 }],
  ["target", { targets: "1m" }],
])("%s is refused if it cannot work", async (option, given) => {
  const fresh = await freshSchema();
  await expect(
    fresh
      .client()
      .inspector()
      .capacity(given as never),
  ).rejects.toThrow(option);
});
