import { expect, test } from "vitest";
import {
  cancel,
  defineJob,
  handle,
  InvalidOptionError,
  snooze,
  typed,
  type BatchItem,
  type Stint,
  type WorkerOptions,
} from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const index = defineJob("index", { payload: typed<number>(), attempts: 3 });
const double = defineJob("double", { payload: typed<number>(), result: typed<number>(), attempts: 1 });

async function work(
  stint: Stint,
  handler: WorkerOptions["handlers"][number],
  more: Partial<WorkerOptions> = {},
) {
  const worker = stint.worker({
    pools: { default: 10 },
    signals: false,
    poll: "100ms",
    backoff: { steps: [1] },
    handlers: [handler],
    ...more,
  });
  await worker.start();
  return worker;
}

const enqueueAll = async (stint: Stint, count: number): Promise<string[]> => {
  const numbers = Array.from({ length: count }, (_, n) => ({ job: index, payload: n }));
  return (await stint.enqueueMany(numbers)).map(({ id }) => id);
};

test("one call handles as many jobs as there are, and each has its own outcome", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = await Promise.all([1, 2, 3, 4].map((n) => stint.enqueue(double, n)));
  const calls: number[] = [];
  await work(
    stint,
    handle(double, { batch: { size: 4, wait: "20s" } }, (items) => {
      calls.push(items.length);
      return items.map(({ payload }) => payload * 2);
    }),
  );

  expect(await stint.waitFor(jobs, { timeout: "60s" })).toEqual([2, 4, 6, 8]);
  expect(calls).toEqual([4]);
});

test("a batch that is not full runs after its wait", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const sizes: number[] = [];
  await work(
    stint,
    handle(index, { batch: { size: 10, wait: 50 } }, (items) => void sizes.push(items.length)),
  );
  await stint.waitFor(await enqueueAll(stint, 3), { timeout: "60s" });
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(3);
});

test("a throw fails only the jobs without an outcome, and each retries alone", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const calls: number[][] = [];
  const ids = await enqueueAll(stint, 6);
  await work(
    stint,
    handle(index, { batch: { size: 6, wait: "20s" } }, (items) => {
      calls.push(items.map(({ payload }) => payload));
      const by = (n: number): BatchItem<number> | undefined => items.find(({ payload }) => payload === n);
      by(0)?.done();
      by(1)?.done(cancel("not wanted"));
      by(2)?.fail(new Error("only this one"));
      // Number 5 makes every call throw.
      if (by(5) !== undefined) throw new Error("all others");
    }),
  );

  const ended = await stint.waitFor(ids, { timeout: "60s", onError: "report" });
  expect(ended.map((one) => (one instanceof Error ? "failed" : "succeeded"))).toEqual([
    "succeeded",
    "failed",
    "failed",
    "succeeded",
    "succeeded",
    "failed",
  ]);
  const states = await Promise.all(ids.map(async (id) => (await stint.get(id))!.state));
  expect(states).toEqual(["succeeded", "cancelled", "dead", "succeeded", "succeeded", "dead"]);
  expect(calls[0]).toHaveLength(6);
  expect(calls.slice(1).every((call) => call.length === 1)).toBe(true);
  expect((await stint.get(ids[5]!))!.attempts).toBe(3);
});

test("outcomes in the array: a result, an error, a snooze", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [ok, bad, later] = await Promise.all([1, 2, 3].map((n) => stint.enqueue(double, n)));
  await work(
    stint,
    handle(double, { batch: { size: 3, wait: "20s" } }, (items) =>
      items.map(({ payload }) => (payload === 1 ? 10 : payload === 2 ? new Error("two") : snooze("1h"))),
    ),
  );
  expect(await stint.waitFor(ok!, { timeout: "60s" })).toBe(10);
  await expect(stint.waitFor(bad!, { timeout: "60s" })).rejects.toThrow("two");
  await until(async () => (await stint.get(later!.id))?.state === "scheduled");
});

test("an array of another length fails the jobs without an outcome", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = await Promise.all([1, 2].map((n) => stint.enqueue(double, n)));
  await work(
    stint,
    handle(double, { batch: { size: 2, wait: "20s" } }, (items) => {
      items[0]!.done(7);
      return [7];
    }),
  );
  const ended = await stint.waitFor(jobs, { timeout: "60s", onError: "report" });
  expect(ended.filter((one) => one === 7)).toHaveLength(1);
  expect(ended.filter((one) => one instanceof Error)).toHaveLength(1);
});

test("a job that is cancelled while its batch gathers does not begin", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const seen: number[] = [];
  const [first, second] = await enqueueAll(stint, 2);
  const worker = await work(
    stint,
    handle(index, { batch: { size: 3, wait: "20s" } }, (items) => {
      seen.push(...items.map(({ payload }) => payload));
    }),
  );
  await until(() => worker.running === 2);
  await stint.cancel(first!);
  await until(async () => (await stint.get(first!))?.state === "cancelled");
  await enqueueAll(stint, 2);

  await stint.waitFor(second!, { timeout: "60s" });
  expect(seen.toSorted((a, b) => a - b)).toEqual([0, 1, 1]);
});

test("a job whose lease is lost is refused alone; the others of its batch settle", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const began = gate();
  const go = gate();
  const [lost, kept] = await enqueueAll(stint, 2);
  const worker = await work(
    stint,
    handle(index, { batch: { size: 2, wait: "20s" } }, async () => {
      began.open();
      await go.opened;
    }),
  );
  await began.opened;
  await fresh.sql(`update stint.job set lease_id = gen_random_uuid(), epoch = epoch + 1 where id = $1`, [
    lost,
  ]);
  const refused: string[] = [];
  worker.on("leaseLost", ({ id }) => refused.push(id));
  go.open();

  await stint.waitFor(kept!, { timeout: "60s" });
  await until(() => refused.length > 0);
  expect(refused).toEqual([lost]);
});

test("each job of a batch passes its middlewares and takes a slot", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  let wrapped = 0;
  const began = gate<number>();
  const go = gate();
  const ids = await enqueueAll(stint, 5);
  const worker = await work(
    stint,
    handle(index, { batch: { size: 2, wait: "20s" } }, async () => {
      began.open(worker.pools[0]!.busy);
      await go.opened;
    }),
    {
      pools: { default: 2 },
      middlewares: [
        async (_, next) => {
          wrapped += 1;
          return await next();
        },
      ],
    },
  );
  expect(await began.opened).toBe(2);
  expect(wrapped).toBe(2);
  go.open();
  await worker.stop({ drain: "20s" });
  expect(ids).toHaveLength(5);
});

test("a worker that stops while a batch gathers releases its jobs unspent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [id] = await enqueueAll(stint, 1);
  const worker = await work(
    stint,
    handle(index, { batch: { size: 5, wait: "10m" } }, () => undefined),
  );
  await until(() => worker.running === 1);
  await worker.stop({ drain: 0 });
  expect(await stint.get(id!)).toMatchObject({ state: "ready", attempts: 0 });
});

test.each<[() => unknown, string]>([
  [() => handle(index, { batch: { size: 0 } }, () => undefined), "batch.size"],
  [() => handle(index, { batch: { size: 2.5 } }, () => undefined), "batch.size"],
  [() => handle(index, { batch: { size: 2, wiat: 1 } as never }, () => undefined), 'did you mean "wait"'],
  [() => handle(index, { batch: null as never }, () => undefined), "batch: must be"],
  [() => handle(index, { batch: { size: 2, wait: "2s" }, timeout: "1s" }, () => undefined), "shorter than"],
  [() => handle(index, { batch: { size: 2 } }, undefined as never), "index"],
  [
    () =>
      handle(
        defineJob("whole", { payload: typed<number>(), atomic: true }),
        { batch: { size: 2 } },
        () => undefined,
      ),
    "atomic",
  ],
])("refuses a batch that cannot work (%#)", (make, text) => {
  expect(make).toThrow(InvalidOptionError);
  expect(make).toThrow(text);
});

test("refuses a pool with fewer slots than a batch has jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const handlers = [handle(index, { batch: { size: 11 } }, () => undefined)];
  expect(() => stint.worker({ pools: { default: 10 }, handlers })).toThrow("at least 11 slots");
});
