import { expect, test } from "vitest";
import { defineJob, handle, steps, typed, type HandlerContext, type Job, type Tx } from "#stint/index.js";
import { commitOfHandler, startCutProxy, type CutProxy } from "../support/cut-proxy.ts";
import { passTime } from "../support/database-time.ts";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { noteTable } from "../support/note-table.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { slice } from "../support/lab.ts";

const options = { payload: typed<object>(), backoff: steps("1h"), attempts: 1 };
const plain = defineJob("plain", options);
const atomic = defineJob("atomic", { ...options, atomic: true });

/** Called in the transaction of the first attempt, after the first of its two writes. */
type Fault = (tx: Tx, proxy: CutProxy) => Promise<unknown>;

/** Run one job with `complete` and one of an atomic kind, each through a proxy of its own. Returns them, and what they wrote. */
async function meet(fault: Fault): Promise<{ jobs: Job[]; writes: unknown[] }> {
  const fresh = await freshSchema();
  const table = await noteTable(fresh, "kind text, part integer");
  const write = async (tx: Tx, { kind, fence }: HandlerContext, proxy: CutProxy): Promise<void> => {
    const insert = `insert into ${table} values ($1, $2)`;
    await tx.query(insert, [kind, 1]);
    if (fence.epoch === 1) await fault(tx, proxy);
    await tx.query(insert, [kind, 2]);
  };
  const direct = fresh.client();
  const run = async (isAtomic: boolean): Promise<Job> => {
    const proxy = await startCutProxy(fresh.url);
    const stint = fresh.client({ database: proxy.url });
    const handler = isAtomic
      ? handle(atomic, async (context) => await write(context.tx, context, proxy))
      : handle(plain, async (context) => await context.complete((tx) => write(tx, context, proxy)));
    await startWorker(stint, { handlers: [handler] });
    const { id } = await direct.enqueue(isAtomic ? atomic : plain, {});
    const ended = async () => {
      const job = await direct.get(id);
      return job !== undefined && ["succeeded", "dead"].includes(job.state) ? job : undefined;
    };
    return (await until(ended, { message: "the job ends" }))!;
  };
  const jobs = await Promise.all([run(false), run(true)]);
  const writes = await fresh.sql(
    `select kind, part, count(*)::int from ${table} group by 1, 2 order by 1, 2`,
  );
  return { jobs, writes };
}

const once = [
  { kind: "atomic", part: 1, count: 1 },
  { kind: "atomic", part: 2, count: 1 },
  { kind: "plain", part: 1, count: 1 },
  { kind: "plain", part: 2, count: 1 },
];
const unspent = { state: "succeeded", attempts: 1, crashes: 0, interruptions: 0 };
const reset = { reset: true };

const settle = "/* stint:finish-lent */";

/** What happens to the next message with the marker. */
const cutAt =
  (marker: string, cut: "unsent" | "unanswered"): Fault =>
  async (_, proxy) =>
    await Promise.resolve(void proxy.cutAt(marker, cut, reset));

const faults: [string, Fault][] = [
  ["between two statements", async (_, proxy) => await Promise.resolve(proxy.resetAll())],
  ["before the response to the settle", cutAt(settle, "unanswered")],
  ["at the commit", cutAt(commitOfHandler, "unsent")],
  [
    "at a commit that never arrives",
    async (_, proxy) =>
      await Promise.resolve(void proxy.holdAt(commitOfHandler).then((held) => held.resetClient())),
  ],
];

test.each(slice(faults, ([when]) => /settle|never arrives/.test(when)))(
  "a connection that is reset %s counts a fault and spends no attempt",
  async (_, fault) => {
    const { jobs, writes } = await meet(fault);

    for (const job of jobs)
      expect(job).toMatchObject({
        ...unspent,
        epoch: 2,
        faults: 1,
        log: [{ outcome: "released" }, { outcome: "succeeded" }],
      });
    expect(writes).toEqual(once);
  },
);

test("a connection reset after the commit leaves the job succeeded once", async () => {
  const { jobs, writes } = await meet(cutAt(commitOfHandler, "unanswered"));

  for (const job of jobs) expect(job).toMatchObject({ ...unspent, epoch: 1, faults: 0 });
  expect(writes).toEqual(once);
});

test("a commit that arrives after a connection reset duplicates no write", async () => {
  const { jobs, writes } = await meet(async (_, proxy) => {
    void proxy.holdAt(commitOfHandler).then(async (held) => {
      held.resetClient();
      const looked = () => proxy.count("/* stint:settled */");
      const before = looked();
      await until(() => looked() > before, { message: "the worker looks whether it was committed" });
      await held.release();
    });
    await Promise.resolve();
  });

  for (const job of jobs) expect(job).toMatchObject(unspent);
  expect(writes).toEqual(once);
});

test("an outage longer than the attempt's timeout spends no attempt", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  const timedOut = gate();
  const short = defineJob("short", { ...options, timeout: "1s" });
  await startWorker(stint, {
    abort: 10,
    handlers: [
      handle(short, async ({ complete, signal, fence }) => {
        if (fence.epoch === 1) signal.addEventListener("abort", () => timedOut.open());
        return await complete(() => {
          if (fence.epoch === 1) proxy.down();
        });
      }),
    ],
  });
  const direct = fresh.client();
  const { id } = await direct.enqueue(short, {});
  await timedOut.opened;
  // The time a handler has to stop, which is over when this timer fires.
  await passTime(fresh, 100);
  proxy.up();

  await direct.waitFor(id, { timeout: "60s" });
  expect(await direct.get(id)).toMatchObject({ state: "succeeded", attempts: 1, faults: 1 });
});
