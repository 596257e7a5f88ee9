import { expect, test } from "vitest";
import type { Db } from "#stint/db/db.js";
import { statement } from "#stint/db/statement.js";
import type { ClaimedJob, Fence } from "#stint/model/job.js";
import { parkReasons, parkRules } from "#stint/model/park-reasons.js";
import { states, transitions } from "#stint/model/state.js";
import { newId } from "#stint/runtime/new-id.js";
import { claimQuarantined } from "#stint/sql/claim.js";
import { changeWaiting } from "#stint/sql/change.js";
import { completeWaiting } from "#stint/sql/complete.js";
import { expire as expireWaiting } from "#stint/sql/expire.js";
import { finish } from "#stint/sql/finish.js";
import { actOnMany } from "#stint/sql/operate-many.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { park } from "#stint/sql/park.js";
import { promote } from "#stint/sql/promote.js";
import { release } from "#stint/sql/release.js";
import { renew } from "#stint/sql/renew.js";
import { requeue } from "#stint/sql/requeue.js";
import { rescue } from "#stint/sql/rescue.js";
import { deliver, sendSignalOnce } from "#stint/sql/signals.js";
import { succeed } from "#stint/sql/succeed.js";
import { tendLimits } from "#stint/sql/limits.js";
import { placesFor } from "#stint/sql/take-places.js";
import { tendDependencies } from "#stint/sql/dependencies.js";
import { tokensFor } from "#stint/sql/take-tokens.js";
import { suspend } from "#stint/sql/suspend.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { liftMissedLatest } from "#stint/sql/latest.js";
import { holdPaused, liftPaused, pause, resume } from "#stint/sql/pauses.js";
import {
  movesIn,
  parks,
  prepared,
  recordMoves,
  show,
  standings,
  type Standing,
  type Subject,
} from "./record-moves.ts";
import { addOne, auditInfo, expire, take, type JobInput } from "./jobs.ts";

// Every statement that moves jobs is run on a job of every state, and a trigger writes down what it did to it.

const acme = { scope: "tenant", name: "acme" } as const;

const letExpire = statement(
  "let-expire",
  `update stint.job set expires_at = now() - interval '1 second' where id = $1`,
);

async function ofPausedTenant(db: Db): Promise<Subject> {
  const id = await addOne(db, { tenant: "acme" });
  const [job] = await take(db);
  await pause(db, acme, null, { ...auditInfo(), reason: "it is down" });
  return { id, fence: job!.fence };
}

/** How a job gets into each state. Running jobs differ in what a rescue does to them. */
const begins: Record<string, (fresh: Fresh) => Promise<Subject>> = {
  absent: (fresh) => Promise.resolve(stranger(fresh)),
  scheduled: async ({ db }) => stranger(db, await addOne(db, { delay_ms: 3_600_000 })),
  due: async (fresh) => {
    const id = await addOne(fresh.db, { delay_ms: 3_600_000 });
    await fresh.sql(`update stint.job set run_at = now() - interval '1 second' where id = $1`, [id]);
    return stranger(fresh, id);
  },
  ready: async ({ db }) => stranger(db, await addOne(db)),
  running: async ({ db }) => await held(db),
  "running alone": async (fresh) => await heldAlone(fresh),
  "running, cancel requested": async ({ db }) => {
    const subject = await held(db);
    await cancel(db, subject.id, auditInfo());
    return subject;
  },
  expired: async (fresh) => await expired(fresh, await held(fresh.db)),
  "expired, a crash before its last": async (fresh) => await expired(fresh, await held(fresh.db, 2)),
  "expired alone": async (fresh) => await expired(fresh, await heldAlone(fresh)),
  "expired, cancel requested": async (fresh) => {
    const subject = await held(fresh.db);
    await cancel(fresh.db, subject.id, auditInfo());
    return await expired(fresh, subject);
  },
  retrying: async ({ db }) => {
    const subject = await held(db);
    await requeue(db, [retry(subject.fence, 3_600_000)]);
    return subject;
  },
  "retrying, due": async (fresh) => {
    const subject = await begins["retrying"]!(fresh);
    await fresh.sql(`update stint.job set run_at = now() - interval '1 second' where id = $1`, [subject.id]);
    return subject;
  },
  parked: async (fresh) => {
    const subject = await held(fresh.db, 2);
    await expired(fresh, subject);
    await rescue(fresh.db, { limit: 10, maxCrashes: 3 });
    return subject;
  },
  "parked for review": async ({ db }) => await parkedUntil(db, null),
  "parked until later": async ({ db }) => await parkedUntil(db, 3_600_000),
  "parked until now": async ({ db }) => await parkedUntil(db, 0),
  asleep: async ({ db }) => await suspendedUntil(db, null, 3_600_000),
  "asleep until now": async ({ db }) => await suspendedUntil(db, null, 0),
  "waiting for a signal": async ({ db }) => await suspendedUntil(db, "go", null),
  "waiting for a signal until now": async ({ db }) => await suspendedUntil(db, "go", 0),
  "waiting for a signal that was sent": async ({ db }) => {
    const subject = await suspendedUntil(db, "go", null);
    await send(db, subject.id);
    return subject;
  },
  "running, a signal was sent": async ({ db }) => {
    const subject = await held(db);
    await send(db, subject.id);
    return subject;
  },
  "ready with a key": async ({ db }) => stranger(db, await addOne(db, keyed)),
  "scheduled with a key": async ({ db }) => stranger(db, await addOne(db, { ...keyed, delay_ms: 3_600_000 })),
  "running with a key": async ({ db }) => {
    const id = await addOne(db, keyed);
    const [job] = await take(db);
    return { id, fence: job!.fence };
  },
  // The job itself, with the fence of the one that it waits for.
  "parked behind another": async ({ db }) => await behind(db, {}),
  "parked behind another, and later": async ({ db }) => await behind(db, { delay_ms: 3_600_000 }),
  "running, its tenant is paused": async ({ db }) => await ofPausedTenant(db),
  paused: async ({ db }) => {
    const subject = await ofPausedTenant(db);
    await holdPaused(db, [{ fence: subject.fence, pause: acme }]);
    return subject;
  },
  "paused, then resumed": async (fresh) => {
    const subject = await begins["paused"]!(fresh);
    await resume(fresh.db, acme, { ...auditInfo(), reason: "over" });
    return subject;
  },
  blocked: async ({ db }) => {
    const { id } = await held(db);
    return stranger(db, await addOne(db, { member: { after: [id] } }));
  },
  "blocked, then cancelled": async (fresh) => {
    const subject = await begins["blocked"]!(fresh);
    await cancel(fresh.db, subject.id, auditInfo());
    return subject;
  },
  "blocked by a replayed job, and dead": async (fresh) => {
    const subject = await begins["dead"]!(fresh);
    const { id } = await held(fresh.db);
    await fresh.sql(
      `insert into stint.flow_job (job_id, flow_id, kind, state) values ($1, $1, 'work', 'dead')`,
      [subject.id],
    );
    await fresh.sql(`insert into stint.flow_edge (job_id, ordinal, on_id, kind) values ($1, 1, $2, 'work')`, [
      subject.id,
      id,
    ]);
    return subject;
  },
  "running, in a flow with compensations": async ({ db }) => {
    const flow = { id: newId() };
    const undo = { kind: "work", queue: "main", payload: null };
    const id = await addOne(db, { member: { flow, compensate: undo } });
    const [job] = await take(db);
    await addOne(db, { member: { flow } });
    const [other] = await take(db);
    await requeue(db, [retry(other!.fence, 3_600_000)]);
    await addOne(db, { member: { flow } });
    await addOne(db, { member: { flow }, delay_ms: 3_600_000 });
    return { id, fence: job!.fence };
  },
  "running, and others wait for it": async ({ db }) => {
    const subject = await held(db);
    const after = [subject.id];
    await addOne(db, { member: { after } });
    await addOne(db, { member: { after }, delay_ms: 60_000 });
    await addOne(db, { member: { after, on_failure: "cancel" } });
    return subject;
  },
  "running, and its limit is full": async (fresh) => {
    const [, second] = await heldAtLimit(fresh, 2);
    return { id: second!.fence.job, fence: second!.fence };
  },
  "running, and others wait for its place": async (fresh) => {
    const [first, second] = await heldAtLimit(fresh, 2);
    await placesFor(fresh.db, [second!.fence]);
    return { id: first!.fence.job, fence: first!.fence };
  },
  "running alone, and its limit is full": async (fresh) => {
    const { fence } = await heldAlone(fresh);
    await heldAtLimit(fresh, 1);
    return { id: fence.job, fence };
  },
  "waiting for a place": async (fresh) => {
    const [, second] = await heldAtLimit(fresh, 2);
    await placesFor(fresh.db, [second!.fence]);
    return stranger(fresh, second!.fence.job);
  },
  "waiting for a place of a limit that is gone": async (fresh) => {
    const subject = await begins["waiting for a place"]!(fresh);
    await fresh.sql(`delete from stint.limit`);
    return subject;
  },
  "running, and others wait for their turn": async ({ db }) => {
    const id = await addOne(db, turn);
    const [job] = await take(db);
    await placesFor(db, [job!.fence]);
    await addOne(db, turn);
    return { id, fence: job!.fence };
  },
  "running, and a later job waits for its turn": async ({ db }) => {
    const id = await addOne(db, turn);
    const [job] = await take(db);
    await placesFor(db, [job!.fence]);
    await addOne(db, { ...turn, delay_ms: 3_600_000 });
    return { id, fence: job!.fence };
  },
  "waiting for its turn": async (fresh) => {
    await begins["running, and others wait for their turn"]!(fresh);
    const [waits] = await fresh.sql<{ id: string }>(
      `select job_id as id from stint.limit_place where not holds`,
    );
    return stranger(fresh, waits!.id);
  },
  "waiting for a turn that no job has": async (fresh) => {
    const { fence } = await begins["running, and a later job waits for its turn"]!(fresh);
    await fresh.sql(`delete from stint.limit_place where holds`);
    const [waits] = await fresh.sql<{ id: string }>(`select job_id as id from stint.limit_place`);
    return { id: waits!.id, fence: { ...fence, job: newId() } };
  },
  "running, and its bucket is empty": async (fresh) => {
    const subject = await held(fresh.db);
    await emptyBucket(fresh);
    return subject;
  },
  "running alone, and its bucket is empty": async (fresh) => {
    const { fence } = await heldAlone(fresh);
    await emptyBucket(fresh);
    return { id: fence.job, fence };
  },
  "waiting for tokens that are there": async (fresh) => {
    const { id, fence } = await begins["running, and its bucket is empty"]!(fresh);
    await tokensFor(fresh.db, [{ fence, costs: [{ name: "api", cost: 1 }] }]);
    await fresh.sql(`update stint.dependency set credit = 1000000000000, next_at = clock_timestamp()`);
    return stranger(fresh, id);
  },
  succeeded: async ({ db }) => await ended(db, "succeeded"),
  dead: async ({ db }) => await ended(db, "dead"),
  cancelled: async ({ db }) => await ended(db, "cancelled"),
};

/** Every statement that may move a job, and how it is called for one. */
const statements: Record<string, (db: Db, subject: Subject) => Promise<unknown>> = {
  enqueueNew: (db) => addOne(db),
  enqueueLater: (db) => addOne(db, { delay_ms: 3_600_000 }),
  enqueueOnce: (db) => addOne(db, { dedupe_key: newId() }),
  enqueueLatest: (db) => addOne(db, { ...keyed, replace: "both", run_at: "2026-01-01T00:00:00Z" }),
  enqueueLatestWithOrder: async (db) => {
    await addOne(db, { limits: ["order:work=2"], order: "order:work=2" });
    await addOne(db, { ...keyed, replace: "payload", limits: ["order:work=2"], order: "order:work=2" });
  },
  enqueueLatestLater: (db) => addOne(db, { ...keyed, replace: "both", delay_ms: 7_200_000 }),
  liftMissed: (db) => liftMissedLatest(db),
  enqueueAgain: (db, { id }) => addOne(db, { id, again: true }),
  // Refused where there is no such job.
  enqueueAfter: (db, { id }) =>
    addOne(db, { member: { after: [id], on_failure: "cancel" } }).catch(() => undefined),
  continueWith: (db, { fence }) =>
    finish(db, [
      { fence, state: "succeeded", result: null, reason: null, ending: null, plan: planOf("next") },
    ]),
  waitForChildren: (db, { fence }) =>
    park(db, [{ ...forReview(fence, null), reason: "blocked", plan: planOf("spawn") }]),
  enqueueOrdered: async (db) => {
    const key = `order:work=${newId()}`;
    await addOne(db, { limits: [key], order: key });
    await addOne(db, { limits: [key], order: key });
  },
  takePlaces: (db, { fence }) => placesFor(db, [fence]),
  tendLimits: (db) => tendLimits(db, true, "w"),
  takeTokens: (db, { fence }) => tokensFor(db, [{ fence, costs: [{ name: "api", cost: 1 }] }]),
  tendDependencies: (db) => tendDependencies(db),
  promote: (db) => promote(db, 10),
  claim: (db) => take(db),
  claimQuarantined: (db) => alone(db),
  renew: (db, { fence }) => renew(db, [{ ...fence, leaseMs: 60_000 }]),
  succeed: (db, { fence }) => succeed(db, [fence]),
  ...Object.fromEntries(
    (["succeeded", "dead", "cancelled"] as const).map((state) => [
      `finish ${state}`,
      async (db: Db, { fence }: Subject) =>
        await finish(db, [{ fence, state, result: null, reason: null, ending: { outcome: "failed" } }]),
    ]),
  ),
  retry: (db, { fence }) => requeue(db, [retry(fence, 60_000)]),
  retryAtOnce: (db, { fence }) => requeue(db, [retry(fence, 0)]),
  snooze: (db, { fence }) => requeue(db, [{ ...retry(fence, 60_000), state: "scheduled" }]),
  releaseBegun: (db, { fence }) => requeue(db, [{ ...retry(fence, 0), state: "ready", delayMs: null }]),
  release: (db, { fence }) => release(db, [fence]),
  park: (db, { fence }) => park(db, [forReview(fence, null)]),
  sleep: (db, { fence }) => suspend(db, [waiting(fence, null, 60_000)]),
  waitForSignal: (db, { fence }) => suspend(db, [waiting(fence, "go", null)]),
  signal: (db, { id }) => send(db, id),
  deliver: (db) => deliver(db, 10),
  holdPaused: (db, { fence }) => holdPaused(db, [{ fence, pause: acme }]),
  liftPaused: (db) => liftPaused(db, 10),
  expire: async (db, { id }) => {
    await db.run(letExpire, [id]);
    await expireWaiting(db, 10);
  },
  rescue: (db) => rescue(db, { limit: 10, maxCrashes: 3 }),
  cancel: (db, { id }) => cancel(db, id, auditInfo()),
  runNow: (db, { id }) => runNow(db, id, auditInfo()),
  replay: (db, { id }) => replay(db, id, auditInfo()),
  complete: (db, { id }) => completeWaiting(db, id, "1", auditInfo()),
  changeLater: (db, { id }) => changeWaiting(db, id, { delay_ms: 3_600_000, priority: 3 }, auditInfo()),
  changeLimits: (db, { id }) =>
    changeWaiting(db, id, { payload: "2", limits: ["key:account=2"] }, auditInfo()),
  changeOrder: async (db, { id }) => {
    await addOne(db, { limits: ["order:work=2"], order: "order:work=2" });
    await changeWaiting(
      db,
      id,
      { payload: "2", limits: ["order:work=2"], order: "order:work=2" },
      auditInfo(),
    );
  },
  changeNow: (db, { id }) => changeWaiting(db, id, { delay_ms: 0, payload: "2" }, auditInfo()),
  ...Object.fromEntries(
    (["cancel", "run-now", "replay"] as const).map((action) => [
      `${action} many`,
      async (db: Db, { id }: Subject) =>
        await actOnMany(db, action, {
          ids: [id],
          auditIds: [newId()],
          states,
          until: "infinity",
          actor: "tester",
          reason: "because",
        }),
    ]),
  ),
};

/** They add jobs that have nothing to do with the one that is there: one state of that shows what they do. */
const addsOnly = new Set(["enqueueNew", "enqueueLater", "enqueueOnce", "enqueueOrdered"]);

const turn = { limits: ["order:work=1"], order: "order:work=1" } as const;

/** A dependency without tokens, and a ready job of the kind that uses it. */
async function emptyBucket(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `insert into stint.dependency (name, settings, updated_by)
     values ('api', '{"rate": {"limit": 1, "perMs": 1000000000, "burst": 1000}}', 'tester')`,
  );
  await fresh.sql(`insert into stint.kind_dependency (kind, dependency) values ('work', 'api')`);
  await addOne(fresh.db);
}

/** So many jobs are claimed, the first has the only place of their limit, and one more is ready. */
async function heldAtLimit(fresh: Fresh, count: number): Promise<ClaimedJob[]> {
  await fresh.sql(`insert into stint.limit (name, max, updated_by) values ('kind:work', 1, 'tester')`);
  for (let index = 0; index < count; index++) await addOne(fresh.db);
  const jobs = await take(fresh.db, { limit: count });
  await placesFor(
    fresh.db,
    jobs.slice(0, 1).map(({ fence }) => fence),
  );
  await addOne(fresh.db);
  return jobs;
}

const keyed = { dedupe_key: "k", dedupe_until: "finished" } as const;

async function behind(db: Db, later: JobInput): Promise<Subject> {
  await addOne(db, keyed);
  const [job] = await take(db);
  return { id: await addOne(db, { ...keyed, ...later, replace: "both" }), fence: job!.fence };
}

const retry = (fence: Fence, delayMs: number): Parameters<typeof requeue>[1][number] => ({
  fence,
  state: "retrying",
  delayMs,
  countsAs: "attempt",
  ending: { outcome: "failed" },
});

function planOf(what: "next" | "spawn"): string {
  const row = { id: newId(), kind: "work", queue: "main", payload: null };
  return JSON.stringify(what === "next" ? { next: row } : { spawn: [row], wait: "park" });
}

const forReview = (fence: Fence, until: number | null): Parameters<typeof park>[1][number] => ({
  fence,
  reason: "review",
  note: null,
  until,
  ending: { outcome: "parked" },
});

const waiting = (
  fence: Fence,
  awaits: string | null,
  until: number | null,
): Parameters<typeof suspend>[1][number] => ({ fence, seq: 1, name: awaits ?? "sleep", awaits, until });

async function suspendedUntil(db: Db, awaits: string | null, until: number | null): Promise<Subject> {
  const subject = await held(db);
  await suspend(db, [waiting(subject.fence, awaits, until)]);
  return subject;
}

async function send(db: Db, target: string): Promise<unknown> {
  const row = { id: newId(), target, kind: null, name: "go", payload: "1", sender: "tester" };
  return await sendSignalOnce(db, row, false, Date.now() + 3_600_000);
}

async function parkedUntil(db: Db, until: number | null): Promise<Subject> {
  const subject = await held(db);
  await park(db, [forReview(subject.fence, until)]);
  return subject;
}

function stranger(_: unknown, id = newId()): Subject {
  return { id, fence: { job: id, epoch: 1, leaseId: newId() } };
}

async function held(db: Db, maxCrashes?: number): Promise<Subject> {
  const id = await addOne(db, maxCrashes === undefined ? {} : { max_crashes: maxCrashes });
  const [job] = await take(db);
  return { id, fence: job!.fence };
}

async function expired(fresh: Fresh, subject: Subject): Promise<Subject> {
  await expire(fresh, subject.id);
  return subject;
}

async function heldAlone(fresh: Fresh): Promise<Subject> {
  const { id } = await begins["parked"]!(fresh);
  const [job] = await alone(fresh.db);
  return { id, fence: job!.fence };
}

async function alone(db: Db): Promise<ClaimedJob[]> {
  return await claimQuarantined(db, {
    worker: "w2",
    leaseId: newId(),
    kinds: ["work"],
    queues: ["main"],
    kindLeaseMs: {},
    leaseMs: 30_000,
    waitedMs: 0,
  });
}

async function ended(db: Db, state: "succeeded" | "dead" | "cancelled"): Promise<Subject> {
  const subject = await held(db);
  await finish(db, [
    { fence: subject.fence, state, result: null, reason: null, ending: { outcome: "failed" } },
  ]);
  return subject;
}

test("every statement makes only the transitions of the table, from every state", async () => {
  const fresh = await freshSchema();
  await recordMoves(fresh);
  const seen = new Set<string>();

  for (const [state, begin] of Object.entries(begins)) {
    let stood: { subject: Subject; before: Map<string, Standing> } | undefined;
    for (const [name, statement] of Object.entries(statements)) {
      if (addsOnly.has(name) && state !== "absent") continue;
      // Most statements change nothing in most states: then the next one finds the same.
      if (stood === undefined) {
        await prepared(fresh, "empty", `select stint.empty_tables()`);
        const subject = await begin(fresh);
        await prepared(fresh, "forget", `delete from stint.moved`);
        stood = { subject, before: await standings(fresh) };
      }
      await statement(fresh.db, stood.subject);
      const { moves, changed } = await movesIn(fresh, stood.subject, stood.before);
      for (const move of moves) seen.add(move);
      if (changed) stood = undefined;
    }
  }

  const written = new Set(parkReasons.filter((reason) => parkRules[reason].by !== "reserved"));
  const table = transitions.flatMap(({ from, to, move, park: reasons = [] }) =>
    from.flatMap((state) =>
      parks(state, to)
        ? reasons.filter((one) => written.has(one)).map((one) => show(state, to, move, one))
        : [show(state, to, move, null)],
    ),
  );
  expect([...seen].toSorted()).toEqual(table.toSorted());
  // Thousands of statements: six seconds on a quiet machine, and a minute on one whose cores are busy.
}, 400_000);
