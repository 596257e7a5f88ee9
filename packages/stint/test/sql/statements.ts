import type { Row, Run } from "#stint/db/db.js";
import type { Statement } from "#stint/db/statement.js";
import { newId } from "#stint/runtime/new-id.js";
import { auditOf, controlChanges } from "#stint/sql/audit.js";
import {
  claim,
  claimInShares,
  claimedBy,
  claimQuarantined,
  claimWindow,
  reserveQuarantined,
  type Floor,
} from "#stint/sql/claim.js";
import { claimUrgent } from "#stint/sql/claim-urgent.js";
import { claimAged } from "#stint/sql/claim-aged.js";
import { claimFair } from "#stint/sql/claim-fair.js";
import { tendClaimOrder } from "#stint/sql/claim-order.js";
import { enqueue, enqueueStatementInside } from "#stint/sql/enqueue.js";
import { wake } from "#stint/sql/wake.js";
import { noteTransaction, transactionIdInside } from "#stint/sql/inside.js";
import { findStatementInside, finished, get, lastOfChain, list } from "#stint/sql/find.js";
import { knownKinds, registerKinds, unserved } from "#stint/sql/kinds.js";
import { cancel, replay, runNow, stateOf } from "#stint/sql/operate.js";
import { notifyEnded } from "#stint/sql/ended.js";
import { admission, tendAdmission } from "#stint/sql/admission.js";
import { expire } from "#stint/sql/expire.js";
import { liftMissedLatest } from "#stint/sql/latest.js";
import {
  countRunning,
  declareLimits,
  limitAudit,
  limitKeys,
  limits,
  passOrder,
  setLimit,
  tendLimits,
} from "#stint/sql/limits.js";
import {
  declareDependencies,
  dependencies,
  dependencyDelays,
  dependencyAudit,
  setDependency,
  slowDependencies,
  tendDependencies,
} from "#stint/sql/dependencies.js";
import { leaveShares, openShares, placesFor, takeShare } from "#stint/sql/take-places.js";
import { addLimitKeys, tokensFor, tokensTogether } from "#stint/sql/take-tokens.js";
import { holdPaused, knownPauses, liftPaused, pause, pauseAudit, pauses, resume } from "#stint/sql/pauses.js";
import { promote } from "#stint/sql/promote.js";
import { dropOldDays, makePartitionsAhead, pruneDead, pruneSeries, pruneSmall } from "#stint/sql/prune.js";
import {
  declareQueues,
  forgetQueue,
  queueAudit,
  queueSettings,
  setQueue,
} from "#stint/sql/queue-settings.js";
import { queues } from "#stint/sql/queues.js";
import { tenants } from "#stint/sql/tenants.js";
import { findReadyQueues } from "#stint/sql/ready-queues.js";
import { planNextRun } from "#stint/sql/next-run.js";
import { renew } from "#stint/sql/renew.js";
import { rescue } from "#stint/sql/rescue.js";
import { checkSchemaVersion } from "#stint/sql/schema-version.js";
import { endTransaction } from "#stint/sql/end-transaction.js";
import { finish, finishInLent } from "#stint/sql/finish.js";
import {
  addToBatch,
  cancelFlow,
  closeBatch,
  dependencyResults,
  findFlow,
  jobFlow,
  listFlows,
  partsOf,
} from "#stint/sql/flows.js";
import { park } from "#stint/sql/park.js";
import { release } from "#stint/sql/release.js";
import { requeue } from "#stint/sql/requeue.js";
import { changeStatementInside, changeWaiting } from "#stint/sql/change.js";
import { commitStatusesOf } from "#stint/sql/commit-status.js";
import { completeStatementInside, completeWaiting } from "#stint/sql/complete.js";
import { lastCheckpoint, progressOf, writeReports } from "#stint/sql/progress.js";
import { pruneSteps } from "#stint/sql/prune-steps.js";
import {
  deliver,
  receiveSignal,
  sendSignalOnce,
  signalsOf,
  signalStatementInside,
} from "#stint/sql/signals.js";
import { rememberedSteps, stepResult, stepsOf, writeStepResults } from "#stint/sql/steps.js";
import { suspend } from "#stint/sql/suspend.js";
import { settledByOwner } from "#stint/sql/settled.js";
import { succeed } from "#stint/sql/succeed.js";
import { workerActivity } from "#stint/sql/worker-activity.js";
import { depths, standing } from "#stint/sql/depth.js";
import { fleet, poolLoad } from "#stint/sql/pool-load.js";
import { arrivals } from "#stint/sql/arrivals.js";
import {
  flush,
  lately,
  recent,
  recentRuns,
  samples,
  seriesSteps,
  steps,
  topTenants,
} from "#stint/sql/series.js";
import { runningJobs } from "#stint/sql/slow.js";
import { fold, recount } from "#stint/sql/tallies.js";
import {
  heartbeat,
  forgetUnresponsiveWorkers,
  forgetWorker,
  latestStops,
  listWorkers,
  recordStop,
  registerWorker,
  setWorkerPools,
} from "#stint/sql/workers.js";
import { idleCheck } from "../support/idle-check.ts";
import { inspectCalls } from "./inspect-statements.ts";
import { scheduleCalls, send } from "./schedule-statements.ts";
import { auditInfo } from "./jobs.ts";

const id = newId();
const fence = { job: id, epoch: 1, leaseId: newId() };
const fences = Array.from({ length: 20 }, () => ({ ...fence, job: newId() }));
const day = 86_400_000;
const rate = { limit: 60, perMs: 60_000, burst: 1 };
const lent = {
  query: () => Promise.reject(new Error("not asked for")),
  client: undefined,
  begunAt: "1",
  backend: undefined,
};

const signalRow = { id: newId(), target: id, kind: null, name: "go", payload: "1", sender: "tester" };

export const claimInput = {
  worker: "w",
  leaseId: newId(),
  takes: [
    { queue: "a", limit: 10 },
    { queue: "b", limit: 3 },
  ],
  kinds: ["work", "other"],
  kindLeaseMs: { work: 5_000 },
  leaseMs: 30_000,
};

/** Two pools, one of three queues. */
const shared = { limit: 7 };
const poolsInput = {
  ...claimInput,
  takes: [...["c", "a", "b"].map((queue) => ({ queue, limit: 3, pool: shared })), { queue: "d", limit: 2 }],
};
const floorsOf = (queues: readonly string[]): Floor[] =>
  queues.flatMap((queue) =>
    [0, 1, 2].map((priority) => ({ queue, priority, runAt: "2026-01-01 00:00:00+00", id })),
  );
const ranges = [
  { first: "a", until: "b\u0001" },
  { first: "tenant-", until: null },
];

function inside(db: Run, more: { again?: true }): Promise<unknown> {
  const row = { id, kind: "k", queue: "a", ...more };
  const { statement, values } = enqueueStatementInside(
    [{ row, payload: "{}", meta: undefined }],
    undefined,
    "1",
  );
  return db.run(statement, values);
}

const acme = { scope: "tenant", name: "acme" } as const;
const pauseInfo = { auditId: id, actor: "tester", reason: "because" };

/** The thing that a call names need not exist. */
function unlessMissing(error: unknown): void {
  if ((error as { code?: string }).code !== "ST003") throw error;
}

/** Every function of `sql/`, called once with plausible values. */
export const calls: Record<string, (db: Run) => Promise<unknown>> = {
  ...inspectCalls,
  liftMissedLatest: (db) => liftMissedLatest(db),
  expire: (db) => expire(db, 10),
  admission: (db) => admission(db, "a", "t"),
  tendAdmission: (db) => tendAdmission(db, null, 10),
  pause: (db) => pause(db, acme, new Date(Date.now() + 3_600_000), pauseInfo),
  pauseFor: (db) => pause(db, acme, 3_600_000, pauseInfo),
  resume: (db) => resume(db, acme, pauseInfo),
  pauses: (db) => pauses(db),
  pauseAudit: (db) => pauseAudit(db, acme),
  knownPauses: (db) => knownPauses(db),
  liftPaused: (db) => liftPaused(db, 10),
  holdPaused: (db) => holdPaused(db, [{ fence: fences[0]!, pause: acme }]),
  declareLimits: (db) => declareLimits(db, new Map([["kind:k", 5]]), ["k"], "tester"),
  countRunning: (db) => countRunning(db, [fence], ["kind:k"]),
  setLimit: (db) => setLimit(db, "kind:k", 3, pauseInfo),
  limits: (db) => limits(db),
  limitKeys: (db) => limitKeys(db, { search: "a", limit: 10, mostPlaces: 10 }),
  limitAudit: (db) => limitAudit(db, "kind:k"),
  passOrder: (db) => passOrder(db, "order:k=1", pauseInfo),
  tendLimits: (db) => tendLimits(db, true, "w"),
  placesFor: (db) => placesFor(db, fences),
  declareDependencies: (db) =>
    declareDependencies(db, new Map([["api", { rate }]]), new Map([["k", ["api"]]]), "tester"),
  setDependency: (db) => setDependency(db, "api", { rate, quota: null }, pauseInfo),
  dependencies: (db) => dependencies(db),
  dependencyDelays: (db) => dependencyDelays(db, ["a"]),
  dependencyAudit: (db) => dependencyAudit(db, "api"),
  tendDependencies: (db) => tendDependencies(db),
  slowDependencies: (db) => slowDependencies(db, ["api"], 1, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
  tokensTogether: (db) => tokensTogether(db, [{ costs: [{ name: "api", cost: 1 }] }]),
  tokensFor: (db) =>
    tokensFor(
      db,
      fences.map((one) => ({ fence: one, costs: [{ name: "api", cost: 1 }] })),
    ),
  addLimitKeys: (db) =>
    addLimitKeys(
      db,
      fences.map((one) => ({ fence: one, key: "dependency:api" })),
    ),
  takeShare: (db) => takeShare(db, "w", "kind:k", { least: 1, most: 2 }),
  openShares: (db) => openShares(db, "w"),
  leaveShares: (db) => leaveShares(db, "w"),
  notifyEnded: (db) => notifyEnded(db, "stint", [id]),
  claim: (db) => claim(db, claimInput),
  claimOnward: (db) => claim(db, claimInput, floorsOf(["a", "b"])),
  claimPools: (db) => claim(db, poolsInput),
  claimPoolsOnward: (db) => claim(db, poolsInput, floorsOf(["a", "b", "c", "d"])),
  claimInShares: (db) => claimInShares(db, claimInput),
  claimOnwardInShares: (db) => claimInShares(db, claimInput, floorsOf(["a", "b"])),
  claimPoolsInShares: (db) => claimInShares(db, poolsInput),
  claimPoolsOnwardInShares: (db) => claimInShares(db, poolsInput, floorsOf(["a", "b", "c", "d"])),
  claimFair: (db) =>
    claimFair(db, { ...claimInput, queue: "a", limit: 10, turn: { tenant: "", left: 0 }, weights: { b: 2 } }),
  claimUrgent: (db) =>
    claimUrgent(db, { ...poolsInput, takes: [{ queue: "a", limit: 10, mostPriority: 0 }] }),
  claimAged: (db) => claimAged(db, { ...claimInput, queue: "a", limit: 10, agingMs: 1_000 }),
  tendClaimOrder: (db) => tendClaimOrder(db, 10),
  tenants: (db) => tenants(db, "a", 10),
  findReadyQueues: (db) => findReadyQueues(db, { ranges, kinds: ["work"] }),
  claimQuarantined: (db) => claimQuarantined(db, { ...claimInput, queues: ["a"], waitedMs: 0 }),
  reserveQuarantined: (db) => reserveQuarantined(db, { ...claimInput, queues: ["a"], waitedMs: 0 }),
  claimedBy: (db) => claimedBy(db, { leaseId: id, kindLeaseMs: {}, leaseMs: 1 }),
  claimWindow: (db) => claimWindow(db, { until: 0 }),
  idleCheck: (db) => idleCheck(db, { queues: ["a", "b"], kinds: ["work"], since: "-infinity" }),
  idleCheckPools: (db) =>
    idleCheck(db, {
      queues: ["a"],
      kinds: ["work"],
      since: "-infinity",
      search: { ranges, serves: () => true },
    }),
  enqueue: (db) =>
    enqueue(db, [{ row: { id, kind: "k", queue: "a" }, payload: "{}", meta: undefined }], false),
  enqueueAgain: (db) =>
    enqueue(db, [{ row: { id, kind: "k", queue: "a", again: true }, payload: "{}", meta: undefined }], false),
  noteTransaction: (db) => db.run(noteTransaction, []),
  enqueueInside: (db) => inside(db, {}),
  enqueueAgainInside: (db) => inside(db, { again: true }),
  wake: (db) => wake(db, ["ready:a"]),
  get: (db) => get(db, id),
  list: (db) => list(db, { limit: 10 }),
  finished: (db) => finished(db, [id]),
  dependencyResults: (db) => dependencyResults(db, id, null),
  lastOfChain: (db) => lastOfChain(db, id),
  jobFlow: (db) => jobFlow(db, id),
  listFlows: (db) => listFlows(db, { live: true, search: "", after: null, limit: 10 }),
  findFlow: (db) => findFlow(db, id),
  partsOf: (db) => partsOf(db, id),
  cancelFlow: (db) => cancelFlow(db, id, "tester", null),
  addToBatch: (db) => addToBatch(db, id, []),
  closeBatch: (db) => closeBatch(db, id).catch(unlessMissing),
  auditOf: (db) => auditOf(db, id),
  controlChanges: (db) => controlChanges(db, 50),
  registerKinds: (db) => registerKinds(db, [{ name: "k", queue: "a", priority: 1, maxCrashes: 3 }]),
  unserved: (db) => unserved(db, 1_000),
  cancel: (db) => cancel(db, id, auditInfo()),
  runNow: (db) => runNow(db, id, auditInfo()),
  replay: (db) => replay(db, id, auditInfo()),
  stateOf: (db) => stateOf(db, id),
  promote: (db) => promote(db, 1_000),
  makePartitionsAhead: (db) => makePartitionsAhead(db, 7),
  dropOldDays: (db) => dropOldDays(db, 30 * day),
  pruneDead: (db) => pruneDead(db, 90 * day, 5_000),
  pruneSmall: (db) => pruneSmall(db, { doneMs: 30 * day, auditMs: 90 * day }, 5_000),
  queues: (db) => queues(db),
  declareQueues: (db) =>
    declareQueues(
      db,
      new Map([["a", { targetAgeMs: 1_000, admission: null, fair: null, agingMs: null }]]),
      "code:w",
    ),
  setQueue: (db) => setQueue(db, "a", { targetAge: 2_000 }, { auditId: newId(), actor: "a", reason: "r" }),
  forgetQueue: (db) => forgetQueue(db, "a", { auditId: newId(), actor: "a", reason: "r" }),
  queueSettings: (db) => queueSettings(db),
  queueAudit: (db) => queueAudit(db, "a"),
  renew: (db) =>
    renew(
      db,
      fences.map((one) => ({ ...one, leaseMs: 30_000 })),
    ),
  rescue: (db) => rescue(db, { limit: 200, maxCrashes: 3 }),
  checkSchemaVersion: (db) => checkSchemaVersion(db, "stint"),
  // Both statements: the fence does not hold, so it asks whether the transaction is the one.
  "finish-lent": (db) => finishInLent({ ...lent, run: (...call) => db.run(...call) }, fence, null, undefined),
  finish: (db) =>
    finish(
      db,
      fences.map((one) => ({ fence: one, state: "succeeded", result: "1", reason: null, ending: null })),
    ),
  succeed: (db) => succeed(db, fences),
  release: (db) => release(db, fences),
  park: (db) =>
    park(
      db,
      fences.map((fence) => ({
        fence,
        reason: "review",
        note: null,
        until: null,
        ending: { outcome: "parked" },
      })),
    ),
  requeue: (db) =>
    requeue(
      db,
      fences.map((one) => ({
        fence: one,
        state: "ready",
        delayMs: null,
        countsAs: "interruption",
        ending: { outcome: "released" },
      })),
    ),
  requeueTraced: (db) =>
    requeue(
      db,
      fences.map((one) => ({
        fence: one,
        state: "retrying",
        delayMs: 1_000,
        countsAs: "attempt",
        ending: { outcome: "failed" },
        first: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      })),
    ),
  endTransaction: (db) => endTransaction(db, lent),
  suspend: (db) =>
    suspend(
      db,
      fences.map((fence) => ({ fence, seq: 1, name: "sleep", awaits: null, until: 1_000 })),
    ),
  writeStepResults: (db) =>
    writeStepResults(
      db,
      fences.map((fence) => ({ fence, seq: 1, name: "a", result: "1", tookMs: 1 })),
    ),
  writeReports: (db) =>
    writeReports(
      db,
      fences.map((fence) => ({
        fence,
        fraction: 0.5,
        note: null,
        checkpoint: "1",
        lines: [{ text: "a", loggedAt: 0 }],
      })),
    ),
  lastCheckpoint: (db) => lastCheckpoint(db, id),
  progressOf: (db) => progressOf(db, id),
  completeWaiting: (db) => completeWaiting(db, id, "1", auditInfo()),
  completeInside: (db) => send(db, completeStatementInside(id, "1", auditInfo(), "1")),
  changeWaiting: (db) => changeWaiting(db, id, { priority: 1 }, auditInfo()),
  changeInside: (db) => send(db, changeStatementInside(id, { priority: 1 }, auditInfo(), "1")),
  findInside: (db) => send(db, findStatementInside(id, "1")),
  transactionIdInside: (db) => send(db, transactionIdInside("1")),
  commitStatuses: (db) => commitStatusesOf(db, ["3"]),
  rememberedSteps: (db) => rememberedSteps(db, id),
  stepResult: (db) => stepResult(db, id, "a"),
  stepsOf: (db) => stepsOf(db, id, 100),
  sendSignalOnce: (db) => sendSignalOnce(db, signalRow, false, 4_000_000_000_000),
  sendSignalInside: (db) => {
    const { statement, values } = signalStatementInside(signalRow, undefined, "1");
    return db.run(statement, values);
  },
  receiveSignal: (db) => receiveSignal(db, fence, { seq: 1, step: "signal go", signal: "go" }),
  deliver: (db) => deliver(db, 100),
  signalsOf: (db) => signalsOf(db, id, 100),
  pruneSteps: (db) => pruneSteps(db, 30 * day, 5_000),
  settledByOwner: (db) => settledByOwner(db, fences),
  registerWorker: (db) =>
    registerWorker(db, { id: "w", host: "h", pid: 1, version: "v", pools: { a: 1 }, kinds: ["k"] }),
  heartbeat: (db) => heartbeat(db, "w", { listening: true }),
  forgetWorker: (db) => forgetWorker(db, "unknown"),
  setWorkerPools: (db) => setWorkerPools(db, "unknown", { a: 2 }),
  forgetUnresponsiveWorkers: (db) => forgetUnresponsiveWorkers(db, day),
  listWorkers: (db) => listWorkers(db),
  latestStops: (db) => latestStops(db, 100),
  recordStop: (db) => recordStop(db, "unknown", { drained: 1, released: 0, ms: 10 }),
  pruneSeries: (db) => pruneSeries(db, 5_000),
  planNextRun: (db) => planNextRun(db, fence, { delayMs: 1, at: null, payload: null, limits: null }),
  ...scheduleCalls,
  fold: (db) => fold(db, 0),
  recount: (db) => recount(db),
  flush: (db) =>
    flush(db, {
      worker: "w",
      vitals: { busy: 1, slots: 2, waiting: 0, lagMs: 3, rssBytes: 4 },
      rows: [{ queue: "a", kind: "k", claimed: 1, run: [1], runMs: 1 }],
      tenants: [{ tenant: "t", ended: 1, run_ms: 1 }],
      kinds: ["k"],
    }),
  recentRuns: (db) => recentRuns(db),
  depths: (db) => depths(db),
  standing: (db) => standing(db),
  fleet: (db) => fleet(db),
  poolLoad: (db) => poolLoad(db, [{ queues: ["*"], slots: 1 }], undefined),
  workerActivity: (db) => workerActivity(db, 1_000),
  runningJobs: (db) => runningJobs(db),
  knownKinds: (db) => knownKinds(db),
  seriesSteps: async (db) => {
    for (const stepSeconds of steps)
      await seriesSteps(db, { stepSeconds, backMs: 3_600_000, queue: null, kind: null });
  },
  samples: async (db) => {
    // Only of all queues it is looked whether there are too many.
    for (const stepSeconds of steps)
      await samples(db, {
        stepSeconds,
        backMs: 3_600_000,
        queue: stepSeconds === 10 ? null : "a",
        kind: null,
      });
  },
  lately: (db) => lately(db),
  recent: async (db) => {
    for (const step of steps) await recent(db, step, 60_000);
  },
  topTenants: (db) => topTenants(db),
  arrivals: (db) => arrivals(db),
};

export type Sent = { statement: Statement; values: readonly unknown[] };

/** A row in which every column is 0. */
const zeros: Row = new Proxy({}, { get: () => 0 });

/** The statements a call sends, with their values; nothing reaches a database. */
export async function sentBy(call: (db: Run) => Promise<unknown>): Promise<Sent[]> {
  const sent: Sent[] = [];
  // Some functions stop without a row, others on a row of the wrong types. Between them the two results reach every statement.
  for (const rows of [[], [zeros]]) {
    const recorder: Run = {
      async run(statement, values) {
        if (!sent.some((one) => one.statement === statement)) sent.push({ statement, values });
        return await Promise.resolve([...rows]);
      },
    };
    await call(recorder).catch(() => undefined);
  }
  return sent;
}
