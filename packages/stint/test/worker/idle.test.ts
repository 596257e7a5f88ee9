import { expect, test } from "vitest";
import { defineJob, handle, typed, type WorkerOptions } from "#stint/index.js";
import { startCutProxy, type CutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });

/** A worker that only polls, with nothing to do, and what it sends. Its first looks around are over. */
async function startIdle(
  fresh: Fresh,
  options: Partial<WorkerOptions> = {},
): Promise<{
  proxy: CutProxy;
  ran: string[];
  count: (name: string) => number;
  idleChecks: (more: number) => Promise<void>;
}> {
  // The hour does not turn now: once an hour a worker has everything sampled.
  await fresh.sql(`update stint.tally_fold set framed_at = 'infinity'`);
  const proxy = await startCutProxy(fresh.url);
  const ran: string[] = [];
  await startWorker(fresh.client({ database: proxy.url, wake: "none" }), {
    poll: 100,
    rescueEvery: 100,
    handlers: [handle(work, ({ id }) => void ran.push(id))],
    ...options,
  });
  // By the name each was prepared under, which is sent with every call.
  const count = (name: string): number => proxy.count(`${fresh.schema}.${name}`);
  const idleChecks = async (more: number): Promise<void> => {
    const enough = count("idle-check") + more;
    await until(() => count("idle-check") >= enough, { message: `it looks around ${more} times` });
  };
  const others = (): number => proxy.count("") - count("idle-check");
  for (let before = -1; before !== others();) {
    before = others();
    await idleChecks(4);
  }
  return { proxy, ran, count, idleChecks };
}

test("an idle worker sends one statement at every poll, and no other in between", async () => {
  const fresh = await freshSchema();
  const { proxy, count, idleChecks } = await startIdle(fresh);
  // Heartbeats and figures are sent by the clock: on a busy machine, some fall between ten polls, and the next ten count.
  const others = await until(
    async () => {
      const [all, looks] = [proxy.count(""), count("idle-check")];
      await idleChecks(10);
      const more = proxy.count("") - all - (count("idle-check") - looks);
      return more === 0 && { more };
    },
    { message: "ten polls send ten idle checks and nothing else" },
  );

  expect(others).toEqual({ more: 0 });
});

test("a ready job that the idle check finds is claimed", async () => {
  const fresh = await freshSchema();
  const { ran, count } = await startIdle(fresh);
  const before = count("claim");
  // No wake reaches the worker.
  const { id } = await fresh.client({ wake: "none" }).enqueue(work, {});
  await until(() => ran.includes(id), { message: "the job runs" });

  expect(count("claim")).toBeGreaterThan(before);
});

test("a scheduled job that the idle check finds is promoted at its time, not before", async () => {
  const fresh = await freshSchema();
  const { ran, count, idleChecks } = await startIdle(fresh);
  const before = count("promote");
  const { id } = await fresh.client({ wake: "none" }).enqueue(work, {}, { delay: "1h" });
  await idleChecks(5);
  expect(count("promote") - before).toBe(0);
  await fresh.sql("update stint.job set run_at = clock_timestamp() + interval '200 ms'");
  await until(() => ran.includes(id), { message: "the job runs" });

  expect(count("promote") - before).toBeGreaterThan(0);
  expect(count("promote") - before).toBeLessThanOrEqual(3);
});

test("a lease that the idle check sees is rescued after its end, not before", async () => {
  const fresh = await freshSchema();
  const { ran, count, idleChecks } = await startIdle(fresh);
  const before = count("rescue");
  const { id } = await fresh.client({ wake: "none" }).enqueue(work, {}, { delay: "1h" });
  await fresh.sql(
    `update stint.job
     set state = 'running', attempts = 1, epoch = 1, lease_id = gen_random_uuid(), worker = 'dead',
       claimed_at = now(), lease_until = clock_timestamp() + interval '1 hour'`,
  );
  await idleChecks(5);
  expect(count("rescue") - before).toBe(0);
  await fresh.sql("update stint.job set lease_until = clock_timestamp() + interval '200 ms'");
  await until(() => ran.includes(id), { message: "the job runs" });

  expect(await fresh.client().get(id)).toMatchObject({ state: "succeeded", crashes: 1 });
});

test("a quarantined job that the idle check finds runs alone", async () => {
  const fresh = await freshSchema();
  const { ran, count } = await startIdle(fresh);
  const { id } = await fresh.client({ wake: "none" }).enqueue(work, {}, { delay: "1h" });
  await fresh.sql(
    "update stint.job set state = 'parked', park_reason = 'quarantine', crashes = 2, run_at = now()",
  );
  await until(() => ran.includes(id), { message: "the job runs" });

  expect(count("claim-quarantined")).toBeGreaterThan(0);
});
