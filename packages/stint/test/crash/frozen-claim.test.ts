import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { passTime } from "../support/database-time.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { holdClaims } from "../support/hold-claims.ts";
import { ownServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), maxCrashes: 1 });
const leaseMs = 2_000;
/** For this long the backend of the claim stands still: the worker has long given the claim up, and its leases are over. */
const frozenLeases = 4;

async function onOwnServer(): Promise<Fresh> {
  const server = await ownServer();
  onTestFinished(() => server.remove());
  return await freshSchema(server.url);
}

async function pidsOf(fresh: Fresh, condition: string): Promise<number[]> {
  const rows = await fresh.sql<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'stint' and ${condition}`,
  );
  return rows.map(({ pid }) => pid);
}

async function untilAllRan(fresh: Fresh): Promise<void> {
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "every job has ended",
  });
  expect(
    await fresh.sql(
      "select state, crashes, attempts, log from stint.jobs where crashes > 0 or state <> 'succeeded' or attempts <> 1",
    ),
  ).toEqual([]);
}

test("a claim whose backend was frozen before it started counts no crash", async () => {
  const fresh = await onOwnServer();
  await startWorker(fresh.client(), { lease: leaseMs, handlers: [handle(work, () => undefined)] });
  // Frozen within a commit, a backend would hold a lock of the whole server, and the enqueue would wait for it.
  const busy = "(state <> 'idle' or state_change > clock_timestamp() - interval '200 milliseconds')";
  await until(async () => (await pidsOf(fresh, busy)).length === 0, {
    message: "the worker has sent what it sends at its start",
    pauseMs: 20,
  });
  const stopped = await pidsOf(fresh, "true");
  for (const pid of stopped) process.kill(pid, "SIGSTOP");
  await fresh.client().enqueueMany([1, 2, 3].map(() => entry(work, {})));
  await passTime(fresh, frozenLeases * leaseMs);
  for (const pid of stopped) process.kill(pid, "SIGCONT");

  await untilAllRan(fresh);
  expect(stopped.length).toBeGreaterThan(0);
});

test("a claim whose backend was frozen after it took jobs counts no crash", async () => {
  const fresh = await onOwnServer();
  const gatekeeper = await adminClient(fresh.url);
  onTestFinished(() => gatekeeper.end());
  const held = await holdClaims(fresh, gatekeeper);
  await fresh.client().enqueueMany([1, 2, 3].map(() => entry(work, {})));
  await startWorker(fresh.client(), { lease: leaseMs, handlers: [handle(work, () => undefined)] });
  const waiting = "wait_event = 'advisory'";
  await until(async () => (await pidsOf(fresh, waiting)).length > 0, { message: "a claim has taken jobs" });
  const stopped = await pidsOf(fresh, waiting);
  for (const pid of stopped) process.kill(pid, "SIGSTOP");
  await held.release();
  await passTime(fresh, frozenLeases * leaseMs);
  for (const pid of stopped) process.kill(pid, "SIGCONT");

  await untilAllRan(fresh);
  expect(stopped).toHaveLength(1);
});
