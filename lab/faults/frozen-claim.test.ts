import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, typed } from "stint";
import { adminClient } from "../../packages/stint/test/support/database.ts";
import { freshSchema, type Fresh } from "../../packages/stint/test/support/fresh.ts";
import { holdClaims } from "../../packages/stint/test/support/hold-claims.ts";
import { ownServer } from "../../packages/stint/test/support/own-server.ts";
import { hasPgBouncer, pgBouncer } from "../../packages/stint/test/support/pgbouncer.ts";
import { until } from "../../packages/stint/test/support/until.ts";
import { startWorker } from "../../packages/stint/test/support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), maxCrashes: 1 });
const leaseMs = 2_000;

type Way = { fresh: Fresh; admin: Awaited<ReturnType<typeof adminClient>>; database: string };

async function open(way: string): Promise<Way> {
  const server = await ownServer();
  onTestFinished(() => server.remove());
  const fresh = await freshSchema(server.url);
  const database = way === "pooled" ? await pgBouncer({ url: server.url, poolSize: 20 }) : server.url;
  const admin = await adminClient(server.url);
  onTestFinished(() => admin.end());
  return { fresh, admin, database };
}

/** Start a worker and let it run some jobs: then it claims from its floors. */
async function startSeasonedWorker({ fresh, database }: Way): Promise<void> {
  await startWorker(fresh.client({ database }), {
    lease: leaseMs,
    handlers: [handle(work, () => undefined)],
  });
  const stint = fresh.client();
  for (let n = 0; n < 5; n++) await stint.waitFor(await stint.enqueue(work, {}), { timeout: "60s" });
}

/** Stop the backends that this condition describes for four leases. `meanwhile` removes what they waited for. */
async function freeze({ admin }: Way, condition: string, meanwhile: () => Promise<unknown>): Promise<void> {
  const found = `select pid from pg_stat_activity where ${condition} and query ~ 'stint:claim'`;
  let pids: number[] = [];
  await until(
    async () => {
      pids = (await admin.query<{ pid: number }>(found)).rows.map(({ pid }) => pid);
      return pids.length > 0;
    },
    { message: "a claim is where it shall stand still" },
  );
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  await meanwhile();
  await admin.query("select pg_sleep($1)", [(4 * leaseMs) / 1_000]);
  for (const pid of pids) process.kill(pid, "SIGCONT");
}

/** Waits until every job has ended. Returns those that counted a crash or did not succeed at their first attempt. */
async function notWell(fresh: Fresh): Promise<unknown[]> {
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "every job has ended",
    deadlineMs: 120_000,
  });
  return await fresh.sql(
    "select state, crashes, attempts from stint.jobs where crashes > 0 or state <> 'succeeded' or attempts <> 1",
  );
}

const ways = hasPgBouncer ? ["direct", "pooled"] : ["direct"];

test.each(ways)("a %s claim that was frozen after it took jobs counts no crash", async (name) => {
  const way = await open(name);
  const { fresh, admin } = way;
  await startSeasonedWorker(way);
  const held = await holdClaims(fresh, admin);
  await fresh.client().enqueueMany([1, 2, 3].map(() => entry(work, {})));
  await freeze(way, "wait_event = 'advisory'", () => held.release());

  expect(await notWell(fresh)).toEqual([]);
});

test.each(ways)("a %s claim that was frozen inside its commit counts no crash", async (name) => {
  const way = await open(name);
  const { fresh, admin } = way;
  await startSeasonedWorker(way);
  // Commits wait for a standby that does not exist, but for those of this session.
  await admin.query("set synchronous_commit = local");
  await admin.query("alter system set synchronous_standby_names = 'missing'");
  await admin.query("select pg_reload_conf()");
  for (let n = 0; n < 3; n++) await admin.query(`select "${fresh.schema}".enqueue('work', '{}')`);
  await freeze(way, "wait_event = 'SyncRep'", async () => {
    await admin.query("alter system reset synchronous_standby_names");
    await admin.query("select pg_reload_conf()");
  });

  expect(await notWell(fresh)).toEqual([]);
});
