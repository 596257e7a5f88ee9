import { setTimeout as wait } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { before, step, workerWithWaiting } from "../support/prefetch.ts";
import { adminClient } from "../support/database.ts";
import { untilRenewed } from "../support/database-time.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const slow = defineJob("slow", { payload: typed<object>() });
const untouched = { state: "ready", attempts: 0, crashes: 0, interruptions: 0, log: null, worker: null };

async function stored(fresh: Fresh, ids: readonly string[]): Promise<Record<string, unknown>[]> {
  return await fresh.sql(
    "select state, attempts, crashes, interruptions, log, worker from stint.jobs where id = any ($1)",
    [ids],
  );
}

/** Longer than a pool ever prefetches, at any latency of the server. */
const tooLongToClaimAheadMs = 300;

test("a worker with long handlers never holds more jobs than slots", async () => {
  const fresh = await freshSchema();
  const both = gate();
  const start = async (): Promise<{ here: number; most: number; ran: number }> => {
    const counts = { here: 0, most: 0, ran: 0 };
    const { worker } = await startWorker(fresh.client(), {
      pools: { default: 10 },
      handlers: [
        handle(slow, async () => {
          await both.opened;
          await wait(tooLongToClaimAheadMs);
          counts.here -= 1;
          counts.ran += 1;
        }),
      ],
    });
    worker.on("claimed", ({ jobs }) => {
      counts.here += jobs.length;
      counts.most = Math.max(counts.most, counts.here);
    });
    return counts;
  };
  const [one, two] = await Promise.all([start(), start()]);
  await fresh.client().enqueueMany(Array.from({ length: 120 }, () => entry(slow, {})));
  await until(() => one.here === 10 && two.here === 10, { message: "both are full" });
  expect(await fresh.sql("select count(*)::integer as ready from stint.job where state = 'ready'")).toEqual([
    { ready: 100 },
  ]);
  both.open();
  await until(() => one.ran + two.ran === 120, { message: "all have run" });

  expect([one.most, two.most]).toEqual([10, 10]);
});

test("without prefetch a worker claims only into free slots, however fast it is", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { all } = await startWorker(stint, {
    pools: { default: 3 },
    prefetch: false,
    handlers: [handle(slow, () => undefined)],
  });
  await stint.enqueueMany(Array.from({ length: 600 }, () => entry(slow, {})));
  await until(() => all("settled").length === 600, { message: "all have run" });

  const claims = all("claimed").map(({ jobs }) => jobs.length);
  expect(Math.max(...claims)).toBeLessThanOrEqual(3);
});

test("jobs that wait behind stuck slots are released, and another worker runs them", async () => {
  const fresh = await freshSchema();
  const { waiting, finish, worker, seen, all } = await workerWithWaiting(fresh, { prefetch: "1s" });
  const ids = waiting();
  await until(async () => (await stored(fresh, ids)).every(({ state }) => state === "ready"), {
    message: "they are ready again",
  });
  expect(await stored(fresh, ids)).toEqual(ids.map(() => untouched));

  const ran = new Set<string>();
  await startWorker(fresh.client(), { handlers: [handle(step, ({ id }) => void ran.add(id))] });
  await until(() => ids.every((id) => ran.has(id)), { message: "the other worker runs them" });
  expect(worker.running).toBe(2);
  finish();
  await seen("settled", () => worker.running === 0);
  expect(all("leaseLost")).toEqual([]);
});

test("waiting jobs begin in claim order, and a higher priority before them", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const story: { claimed?: string[]; entered?: string; urgent?: string }[] = [];
  const order: number[] = [];
  const { worker } = await startWorker(stint, {
    pools: { default: 2 },
    handlers: [
      handle(step, ({ id, payload: { n } }) => {
        story.push({ entered: id });
        if (n >= 0) order.push(n);
        if (n !== 1_000) return;
        void stint
          .enqueue(step, { do: "pass", n: -1 }, { priority: -5 })
          .then((job) => story.push({ urgent: job.id }));
      }),
    ],
  });
  worker.on("claimed", ({ jobs }) => void story.push({ claimed: jobs.map(({ id }) => id) }));
  // Its priority has been met before; one that has not is found by a sweep.
  await stint.enqueue(step, { do: "pass", n: -1 }, { priority: -5 });
  await stint.enqueueMany(Array.from({ length: 2_500 }, (_, n) => entry(step, { do: "pass", n })));
  // On a slow machine the urgent job may be stored after the last of the others has run.
  const urgentAt = () => story.findIndex(({ urgent }) => urgent !== undefined);
  const hasEntered = (id?: string) => id !== undefined && story.some(({ entered }) => entered === id);
  await until(() => order.length === 2_500 && hasEntered(story[urgentAt()]?.urgent), {
    message: "all have run, and the urgent job",
  });

  expect(order).toEqual(order.toSorted((a, b) => a - b));
  const { urgent } = story[urgentAt()]!;
  const claims = story.flatMap(({ claimed }, at) => (claimed === undefined ? [] : [{ claimed, at }]));
  const taken = claims.findIndex(({ claimed }) => claimed.includes(urgent!));
  // One claim may have been under way when it was committed; the next one takes it.
  const earlier = claims.filter(({ at }) => at < urgentAt()).length;
  expect(taken - earlier).toBeLessThanOrEqual(1);
  expect(story.slice(claims[taken]!.at).find(({ entered }) => entered !== undefined)).toEqual({
    entered: urgent,
  });
});

test("stopping releases waiting jobs at once, and lets running ones finish", async () => {
  const fresh = await freshSchema();
  const { waiting, holding, finish, worker } = await workerWithWaiting(fresh);
  const stopping = worker.stop();
  const ids = waiting();
  await until(async () => (await stored(fresh, ids)).every(({ state }) => state === "ready"), {
    message: "they are ready again",
  });
  expect(await stored(fresh, ids)).toEqual(ids.map(() => untouched));
  expect(await stored(fresh, holding)).toMatchObject([{ state: "running" }, { state: "running" }]);
  finish();

  expect((await stopping).released).toBe(waiting().length);
  expect(await stored(fresh, holding)).toMatchObject([{ state: "succeeded" }, { state: "succeeded" }]);
});

test("a stop without a drain releases every waiting job", async () => {
  const fresh = await freshSchema();
  const { waiting, worker } = await workerWithWaiting(fresh);
  const ids = waiting();
  await worker.stop({ drain: 0, abort: 0 });

  expect(await fresh.sql("select from stint.job where state = 'running'")).toEqual([]);
  expect(await stored(fresh, ids)).toEqual(ids.map(() => untouched));
});

test("a waiting job that is cancelled ends and never begins", async () => {
  const fresh = await freshSchema();
  const { waiting, entered, finish, worker, seen } = await workerWithWaiting(fresh);
  const other = fresh.client();
  const id = waiting()[0]!;
  expect(await other.cancel(id)).toBe("asked");
  await until(async () => (await other.get(id))?.state === "cancelled", { message: "it is cancelled" });
  finish();
  await seen("settled", () => worker.running === 0);

  expect(await other.get(id)).toMatchObject({
    state: "cancelled",
    reason: "cancelled before it began",
    crashes: 0,
  });
  expect(entered).not.toContain(id);
});

test("a waiting job that another worker owns by now does not begin", async () => {
  const fresh = await freshSchema();
  const { waiting, entered, finish, seen } = await workerWithWaiting(fresh);
  const [stolen, neighbour] = waiting();
  const taken = await fresh.sql(
    `update stint.job
     set lease_id = gen_random_uuid(), epoch = epoch + 1, worker = 'thief', lease_until = now() + interval '1 hour'
     where id = $1 and state = 'running'
     returning id`,
    [stolen],
  );
  expect(taken).toEqual([{ id: stolen }]);
  // Cancelled jobs of the same claim leave with the reply that lists the lost leases.
  expect(await fresh.client().cancel(neighbour!)).toBe("asked");
  await until(async () => (await fresh.client().get(neighbour!))?.state === "cancelled", {
    message: "the worker has asked about both",
  });
  finish();
  await seen("settled", () => entered.length > before + 2);

  expect(entered).not.toContain(stolen);
  expect(await fresh.client().get(stolen!)).toMatchObject({ state: "running", worker: "thief", epoch: 2 });
});

test("a locked waiting job delays neither other releases nor lease renewals", async () => {
  const fresh = await freshSchema();
  const { waiting, holding } = await workerWithWaiting(fresh, {
    prefetch: "1s",
    lease: "6s",
    rescueEvery: "1h",
  });
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  const [locked, ...others] = waiting();
  await client.query("begin");
  await client.query(`select from "${fresh.schema}".job where id = $1 for update`, [locked]);

  await until(async () => (await stored(fresh, others)).every(({ state }) => state === "ready"), {
    message: "the others are ready again",
  });
  // The first may have been under way when the job was locked.
  for (const id of holding) await untilRenewed(fresh, id, 2);
  await client.query("rollback");
  await until(async () => (await stored(fresh, [locked!]))[0]?.["state"] === "ready", {
    message: "it goes back, too",
  });
  expect(await stored(fresh, [locked!])).toEqual([untouched]);
});
