import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { isTooLate } from "#stint/db/server-clock.js";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { claim, claimQuarantined } from "#stint/sql/claim.js";
import { rescue } from "#stint/sql/rescue.js";
import { ClaimScope } from "#stint/worker/claim-scope.js";
import { Claimer } from "#stint/worker/claimer.js";
import { LostClaim } from "#stint/worker/lost-claim.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { passTime, wrongClock } from "../support/database-time.ts";
import { type Fresh, freshSchema, openDb } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { running } from "../sql/jobs.ts";
import { session } from "../sql/sessions.ts";

const work = defineJob("work", { payload: typed<object>(), maxCrashes: 1 });
const leaseMs = 5_000;

async function enqueueFive(fresh: Fresh): Promise<void> {
  await fresh.client().enqueueMany([1, 2, 3, 4, 5].map(() => entry(work, {})));
}

async function untilEnded(fresh: Fresh): Promise<void> {
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "every job has ended",
    deadlineMs: 45_000,
  });
}

/** Jobs that counted a crash or did not succeed at their first attempt. */
async function notWell(fresh: Fresh): Promise<unknown[]> {
  return await fresh.sql(
    "select state, crashes, attempts, log from stint.jobs where crashes > 0 or state <> 'succeeded' or attempts <> 1",
  );
}

test.each(["claim", "claim-quarantined"])(
  "a %s that is delayed for several leases takes nothing and counts no crash",
  async (name) => {
    const fresh = await freshSchema();
    const proxy = await startCutProxy(fresh.url);
    await enqueueFive(fresh);
    if (name === "claim-quarantined")
      await fresh.sql("update stint.job set state = 'parked', park_reason = 'quarantine'");
    const stint = fresh.client({ database: proxy.url, prepare: false });
    const held = proxy.holdAt(`/* stint:${name} */`, { all: true });
    await startWorker(stint, { lease: leaseMs, handlers: [handle(work, () => undefined)] });
    const late = await held;
    await passTime(fresh, 3.2 * leaseMs);
    await late.release();
    await untilEnded(fresh);

    expect(await notWell(fresh)).toEqual([]);
  },
);

test("a claim whose response is delayed counts no crash", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  await enqueueFive(fresh);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const mute = proxy.muteAt("/* stint:claim */");
  await startWorker(stint, { lease: leaseMs, handlers: [handle(work, () => undefined)] });
  await mute;
  await untilEnded(fresh);

  expect(await notWell(fresh)).toEqual([]);
});

test("a claim or rescue fails after its deadline and takes nothing", async () => {
  const fresh = await freshSchema();
  const direct = fresh.client();
  await direct.enqueue(work, {});
  const claimed = (untilMs: number, leaseId = randomUUID()) =>
    claim(fresh.db, {
      worker: "w",
      leaseId,
      takes: [{ queue: "default", limit: 5 }],
      kinds: ["work"],
      kindLeaseMs: {},
      leaseMs,
      until: untilMs,
    });
  const late = Date.now() - 3_600_000;
  expect(await claimed(late).catch(isTooLate)).toBe(true);
  expect(await fresh.sql("select state, epoch::int from stint.job")).toEqual([{ state: "ready", epoch: 0 }]);
  expect(await claimed(Date.now() + 3_600_000)).toHaveLength(1);

  await fresh.sql("update stint.job set lease_until = 'epoch'");
  expect(await rescue(fresh.db, { limit: 10, maxCrashes: 3, until: late }).catch(isTooLate)).toBe(true);
  expect(await fresh.sql("select state, crashes from stint.job")).toEqual([{ state: "running", crashes: 0 }]);
});

test("a claim from quarantine fails after its deadline and takes nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  await fresh.sql(
    `update stint.job set state = 'parked', park_reason = 'quarantine', lease_id = null, lease_until = null where id = $1`,
    [fence.job],
  );
  const input = {
    worker: "w",
    leaseId: randomUUID(),
    kinds: ["work"],
    kindLeaseMs: {},
    leaseMs,
    waitedMs: -1_000,
  };
  const suspect = (untilMs: number) =>
    claimQuarantined(fresh.db, { ...input, queues: ["main"], until: untilMs });

  expect(await suspect(Date.now() - 3_600_000).catch(isTooLate)).toBe(true);
  expect(await suspect(Date.now() + 3_600_000)).toHaveLength(1);
});

test("a lost claim is looked for while its transaction is open", async () => {
  const fresh = await freshSchema();
  await fresh.client().enqueue(work, {});
  const claimant = await session(fresh);
  const input = { worker: "w", leaseId: randomUUID(), kinds: ["work"], kindLeaseMs: {}, leaseMs: 3_600_000 };
  await claimant.begin();
  await claim(claimant, { ...input, takes: [{ queue: "default", limit: 1 }] });
  // Its deadline is over, and on a quiet server it is the last transaction that was begun.
  const lost = new LostClaim(fresh.db, input, Date.now() - 1_000);
  for (let looks = 0; looks < 3; looks++) {
    expect(await lost.look()).toEqual([]);
    expect(lost.over).toBe(false);
  }
  await claimant.commit();

  expect(await lost.look()).toHaveLength(1);
});

test.each([-3_600_000, -10_000, 10_000, 3_600_000])(
  "a worker whose estimate of the clock is %d ms off claims",
  async (wrongByMs) => {
    const fresh = await freshSchema();
    const clock = wrongClock(wrongByMs);
    const db = openDb(fresh.url, fresh.schema, clock);
    onTestFinished(() => db.close());
    await fresh.client().enqueue(work, {});
    const claimer = new Claimer({
      db,
      worker: "w",
      scope: new ClaimScope({ kinds: ["work"], queues: ["default"] }),
      kindLeaseMs: {},
      leaseMs,
      shares: { isUsed: false, confirmed: () => undefined },
      onFound: () => undefined,
      onReleased: () => undefined,
    });
    const { signal } = new AbortController();
    const ready = () => claimer.ready([{ queue: "default", limit: 1 }], undefined, signal);
    const jobs = await ready().catch(async (error: unknown) => (isTooLate(error) ? await ready() : []));

    expect(jobs).toHaveLength(1);
  },
);

test("a stopping worker releases what a lost claim took", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const direct = fresh.client();
  await direct.enqueue(work, {});
  const mute = proxy.muteAt("/* stint:claim */");
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const { worker } = await startWorker(stint, { lease: "60s", handlers: [handle(work, () => undefined)] });
  await mute;
  proxy.endMuted();
  await worker.stop({ drain: "5s" });

  await until(async () => (await fresh.sql("select from stint.job where state = 'running'")).length === 0, {
    message: "the job is free",
  });
  expect(await fresh.sql("select crashes from stint.jobs where crashes > 0")).toEqual([]);
});

test("a half-open renewal connection does not lose the lease", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false });
  const end = gate();
  const mute = proxy.muteAt("/* stint:renew */");
  const { all } = await startWorker(stint, { lease: "9s", handlers: [handle(work, () => end.opened)] });
  await fresh.client().enqueue(work, {});
  await mute;
  const renewals = proxy.count("/* stint:renew */");
  await until(() => proxy.count("/* stint:renew */") > renewals + 1, {
    message: "it is renewed on another connection",
  });
  end.open();
  await untilEnded(fresh);

  expect(all("leaseLost")).toEqual([]);
  expect(await notWell(fresh)).toEqual([]);
});
