import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { defineJob, entry, handle, InvalidOptionError, typed } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { claimAged } from "#stint/sql/claim-aged.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, sharedSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { queue: "aged", payload: typed<{ n?: number }>() });
const shared = sharedSchema();

const aged = (fresh: Fresh, limit: number) =>
  claimAged(fresh.db, {
    worker: "w",
    leaseId: randomUUID(),
    kinds: ["work"],
    kindLeaseMs: {},
    leaseMs: 60_000,
    queue: "aged",
    limit,
    agingMs: 60_000,
  });

const payloadOf = ({ payload }: { payload: string }): unknown => JSON.parse(payload);

test("an aged claim takes old jobs of any priority, the oldest first", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  for (const [n, priority] of [3, 0, 9, 5, 0].entries()) await stint.enqueue(work, { n }, { priority });
  await fresh.sql(
    `update stint.job set run_at = now() - (10 - (payload ->> 'n')::integer) * interval '1 hour' where (payload ->> 'n')::integer < 4`,
  );

  expect((await aged(fresh, 3)).map(payloadOf)).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
  expect((await aged(fresh, 3)).map(payloadOf)).toEqual([{ n: 3 }]);
  expect(await aged(fresh, 3)).toEqual([]);
});

test("an aged claim takes the next old jobs while another worker is taking the oldest", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  for (let n = 0; n < 4; n += 1) await stint.enqueue(work, { n }, { priority: n % 2 });
  await fresh.sql(`update stint.job set run_at = run_at - interval '1 hour'`);
  const other = await adminClient(fresh.url);
  await other.query("begin");
  await other.query(
    forSchema(`select from stint.job where (payload ->> 'n')::integer < 2 for update`, fresh.schema),
  );

  expect((await aged(fresh, 2)).map(payloadOf)).toEqual([{ n: 2 }, { n: 3 }]);
  await other.end();
  expect((await aged(fresh, 2)).map(payloadOf)).toEqual([{ n: 0 }, { n: 1 }]);
});

test("an old job starts although urgent jobs never end, and they keep most slots", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ queues: { aged: { aging: "1h" } } });
  await stint.enqueueMany(Array.from({ length: 8 }, (_, n) => entry(work, { n }, { priority: 10 })));
  await fresh.sql(`update stint.job set run_at = run_at - interval '2 hours'`);
  await stint.enqueueMany(Array.from({ length: 20 }, () => entry(work, {})));
  const order: (number | undefined)[] = [];
  await startWorker(stint, {
    pools: { aged: 1 },
    prefetch: false,
    handlers: [
      handle(work, async ({ payload: { n } }) => {
        order.push(n);
        // The stream of urgent jobs never ends.
        if (n === undefined) await stint.enqueueMany([entry(work, {}), entry(work, {})]);
      }),
    ],
  });
  await until(() => order.filter((n) => n !== undefined).length === 8, {
    message: "all old jobs ran",
    deadlineMs: 60_000,
  });

  expect(order.filter((n) => n !== undefined)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  // One of four jobs is an old one.
  const urgent = order.slice(0, order.lastIndexOf(7)).filter((n) => n === undefined).length;
  expect(urgent).toBeGreaterThanOrEqual(14);
  // The stated bound, in jobs: an old job waits for three urgent jobs for itself and for each old one before it.
  const places = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => order.indexOf(n) - order.indexOf(0));
  expect(places.filter((place, n) => place > 4 * n)).toEqual([]);
});

test("without aging, priority is strict", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(work, { n: 1 }, { priority: 10 });
  await fresh.sql(`update stint.job set run_at = run_at - interval '2 hours'`);
  await stint.enqueueMany(Array.from({ length: 20 }, () => entry(work, {})));
  const order: (number | undefined)[] = [];
  await startWorker(stint, {
    pools: { aged: 1 },
    prefetch: false,
    handlers: [handle(work, ({ payload: { n } }) => void order.push(n))],
  });
  await until(() => order.length === 21, { message: "all ran" });

  expect(order.indexOf(1)).toBe(20);
});

test.each([
  ["0", 0],
  ["a negative time", -1],
  ["less than a second", "500ms"],
  ["a word", "soon"],
  ["true", true],
  ["an object", {}],
])("aging: %s is refused and changes nothing", async (_, aging) => {
  const fresh = shared();
  const stint = fresh.client();
  await expect(stint.queueSettings.set("bad", { aging } as never, { reason: "test" })).rejects.toThrow(
    InvalidOptionError,
  );
  expect(() => fresh.client({ queues: { bad: { aging } as never } })).toThrow(InvalidOptionError);
  await expect(
    fresh.sql(`select stint.set_queue('bad', jsonb_build_object('aging', $1::jsonb), 'test')`, [
      JSON.stringify(aging),
    ]),
  ).rejects.toMatchObject({ code: "22023" });
  expect(await fresh.sql(`select from stint.queue where name = 'bad'`)).toEqual([]);
});

test("aging that is no number is refused", () => {
  for (const aging of [Number.NaN, Number.POSITIVE_INFINITY])
    expect(() => shared().client({ queues: { bad: { aging } } })).toThrow(InvalidOptionError);
});
