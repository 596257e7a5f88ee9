/**
 * Renews leases, on a thread and a connection of its own: a handler that blocks the event loop must not lose its job to another
 * worker while it still works on it.
 *
 * scripts/embed.mjs bundles this module and its imports into one text, which the main thread starts. It must not load anything
 * by path.
 */
import { writeSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import type { ConnectionParts } from "../db/connection.ts";
import type { Db, RunOptions } from "../db/db.ts";
import { isTransient } from "../db/transient.ts";
import { PgDb } from "../db/pg.ts";
import { keyOfFence, type Fence } from "../model/job.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { Wakeable } from "../runtime/sleep.ts";
import { wake } from "../sql/wake.ts";
import { renew } from "../sql/renew.ts";
import { ClaimReceiver } from "./claim-channel.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import { releaseUnbegun } from "./release-unbegun.ts";
import { LeasePassword } from "./lease-password.ts";
import {
  stage,
  type FromThread,
  type LeasedClaim,
  type LeaseThreadData,
  type ToThread,
} from "./lease-messages.ts";

const data = workerData as LeaseThreadData;
const heartbeat = new Float64Array(data.heartbeat);
const asleep = new Int32Array(data.asleep);
const claims = new ClaimReceiver(data.claims, (each) => each >= stage.over);
const idleMs = 3_600_000;
/** How long the loop continues to turn without a lease: the next claim is likely to come soon, and needs no message then. */
const lingerMs = 1_000;
/** How often to read new claims, and to check that the event loop of the main thread turns. A lease is longer than three of these. */
const watchMs = data.prefetchMs === 0 ? 250 : Math.min(250, data.prefetchMs / 2);
/** How long that event loop may be blocked before it is reported. */
const blockedMs = 1_000;
/** How soon to renew again after the row was locked. */
const lockedMs = 250;

type TrackedLease = Fence & {
  readonly kind: string;
  readonly serial: number;
  readonly leaseMs: number;
  renewUntil: number;
  readonly claim: LeasedClaim;
  readonly index: number;
  renewAt: number;
  safeUntil: number;
  isReportedLost: boolean;
  /** To be released. Until the database has done it, the lease is kept. */
  isReleasing: boolean;
};

/** Claims with young leases, and when to track each lease. Most jobs end before that, and cost nothing here. */
const untracked = new Map<LeasedClaim, number>();
/** By fence: a stale and a current attempt of one job may both be here. */
const leases = new Map<string, TrackedLease>();
const timer = new Wakeable();
const retryDelay = new RetryDelay(Math.random, { baseMs: 100, capMs: 2_000 });
const password = new LeasePassword(() => post({ type: "password-wanted" }));
const database: Db = new PgDb({
  connection: data.asksPassword
    ? { ...(data.connection as ConnectionParts), password: async () => await password.get() }
    : data.connection,
  schema: data.schema,
  connections: 1,
  transactions: 1,
  applicationName: data.applicationName,
  prepare: data.prepare,
  // A renewal that takes longer than this is worth less than another try.
  deadlineMs: 5_000,
  connectDeadlineMs: 5_000,
  onError: () => undefined,
});

/** Whether the last renewal succeeded. Until the first has, and after a failure, renewals are tried with no lease due. */
let renewable = false;
let tryAgainAt = 0;

const stopping = new AbortController();
const releaseDelay = new RetryDelay(Math.random, { baseMs: 200, capMs: 2_000 });
let releaseAt = 0;
/** When the last claim came. */
let receivedAt = -Infinity;
let renewAll = false;
let blocked: { since: number; kinds: readonly string[]; warned: boolean } | undefined;

// Not `Date`: only durations count, and this clock never jumps.
const now = (): number => performance.timeOrigin + performance.now();

parentPort?.on("message", (message: ToThread) => {
  if (message.type === "renew") renewAll = true;
  else if (message.type === "extend") extend(message.serial, message.renewUntil);
  else if (message.type === "password") password.receive(message.password);
  else if (message.type === "stop") stopping.abort();
  timer.wake();
});
void keepLeases();

async function keepLeases(): Promise<void> {
  while (!stopping.signal.aborted) {
    const at = now();
    receiveClaims();
    forgetOver();
    for (const [claim, dueAt] of untracked) if (renewAll || dueAt <= at) track(claim);
    releaseWaiting(at);
    const due = [...leases.values()].filter(
      (lease) => at < lease.renewUntil && (renewAll || lease.renewAt <= at),
    );
    renewAll = false;
    if (due.length > 0 || (!renewable && tryAgainAt <= at)) await renewLeases(due, at);
    await sendReleases();
    reportExpired();
    watchMainThread();
    await rest();
  }
  await database.close();
  parentPort?.close();
}

function receiveClaims(): void {
  const before = claims.received;
  for (let claim = claims.next(); claim !== undefined; claim = claims.next())
    untracked.set(claim, trackAt(claim));
  if (claims.received > before) receivedAt = now();
}

async function rest(): Promise<void> {
  const ms = untilNext();
  const sleeps = ms > lingerMs;
  if (sleeps) {
    Atomics.store(asleep, 0, 1);
    // A claim sent before the main thread could see that.
    receiveClaims();
  }
  if (!sleeps || !isHolding()) await timer.wait(ms, stopping.signal);
  Atomics.store(asleep, 0, 0);
}

/** When to track the leases of a claim one by one: before the first is due, and before a job has waited for too long. */
function trackAt(claim: LeasedClaim): number {
  return claim.sentAt + Math.min(data.prefetchMs, Math.min(...claim.leaseMs) / 3);
}

function track(claim: LeasedClaim): void {
  untracked.delete(claim);
  const { leaseId, sentAt, firstSerial } = claim;
  for (const [index, job] of claim.jobs.entries()) {
    if (isOver(claim, index)) continue;
    const leaseMs = claim.leaseMs[index] ?? 0;
    const fence = { job, epoch: claim.epochs[index] ?? 0, leaseId };
    leases.set(keyOfFence(fence), {
      ...fence,
      kind: claim.kinds[index] ?? "",
      serial: firstSerial + index,
      leaseMs,
      renewUntil: claim.renewUntil[index] ?? 0,
      claim,
      index,
      renewAt: sentAt + leaseMs / 3,
      safeUntil: sentAt + leaseMs,
      isReportedLost: false,
      isReleasing: false,
    });
  }
}

function extend(serial: number, renewUntil: number): void {
  // Claims come by another port.
  receiveClaims();
  for (const claim of untracked.keys()) {
    const index = serial - claim.firstSerial;
    if (index >= 0 && index < claim.jobs.length) claim.renewUntil[index] = renewUntil;
  }
  for (const lease of leases.values()) if (lease.serial === serial) lease.renewUntil = renewUntil;
}

function isHolding(): boolean {
  return leases.size + untracked.size > 0;
}

function stageOf(claim: LeasedClaim, index: number): number {
  return Atomics.load(claim.stages, index);
}

function forgetOver(): void {
  for (const claim of untracked.keys())
    if (claim.jobs.every((_, index) => isOver(claim, index))) untracked.delete(claim);
  for (const [key, { claim, index, isReleasing }] of leases)
    if (isOver(claim, index) && !isReleasing) leases.delete(key);
}

function isOver(claim: LeasedClaim, index: number): boolean {
  return stageOf(claim, index) >= stage.over;
}

/**
 * Release jobs that found no slot in time, so that other workers can run them. From here, because a handler may be blocking the
 * main thread, and they would wait for as long.
 */
function releaseWaiting(at: number): void {
  for (const lease of leases.values()) {
    if (at >= lease.claim.sentAt + data.prefetchMs && leaveWaiting(lease.claim, lease.index))
      lease.isReleasing = true;
  }
}

/** True if the job was still waiting: the main thread will not begin it any more. */
function leaveWaiting(claim: LeasedClaim, index: number): boolean {
  return Atomics.compareExchange(claim.stages, index, stage.waiting, stage.released) === stage.waiting;
}

async function sendReleases(): Promise<void> {
  const releasing = [...leases.values()].filter((lease) => lease.isReleasing);
  if (releasing.length === 0 || now() < releaseAt) return;
  try {
    const { queues, left } = await releaseUnbegun(database, releasing, deadline(releasing));
    const staying = new Set(left);
    if (left.length === 0) releaseDelay.reset();
    else releaseAt = now() + releaseDelay.next();
    for (const lease of releasing) if (!staying.has(lease)) leases.delete(keyOfFence(lease));
    post({ type: "released", queues });
    // From here: a blocked main thread could not send these wakes.
    if (data.wake && queues.length > 0)
      await wake(
        database,
        queues.map((queue) => `ready:${queue}`),
      );
  } catch (error) {
    releaseAt = now() + releaseDelay.next();
    failed(error);
  }
}

async function renewLeases(due: readonly TrackedLease[], sentAt: number): Promise<void> {
  try {
    const renewals = await renew(database, due, deadline(due));
    succeeded();
    for (const renewal of renewals) {
      const lease = leases.get(keyOfFence(renewal));
      if (lease === undefined) continue;
      if (isOver(lease.claim, lease.index) && !lease.isReleasing) continue;
      lease.renewAt = sentAt + lease.leaseMs / 3;
      // Counted from before the request: the lease ends later than this, never sooner.
      if (renewal.renewed) lease.safeUntil = sentAt + lease.leaseMs;
      else if (renewal.held) lease.renewAt = sentAt + lockedMs;
      else reportLost(lease);
      if (renewal.cancelRequested) post({ type: "cancelled", fence: fenceOf(lease) });
    }
  } catch (error) {
    failed(error);
    for (const lease of due) lease.renewAt = tryAgainAt;
  }
}

function succeeded(): void {
  retryDelay.reset();
  if (renewable) return;
  renewable = true;
  post({ type: "ready" });
}

function failed(error: unknown): void {
  renewable = false;
  tryAgainAt = now() + retryDelay.next();
  const message = error instanceof Error ? error.message : String(error);
  post({ type: "failed", message, transient: isTransient(error) });
}

/** Abandon a connection that does not respond while there is time to try another. */
function deadline(due: readonly TrackedLease[]): RunOptions {
  return { deadlineMs: leaseDeadlineMs(due.map(({ leaseMs }) => leaseMs)) };
}

/** After a lease that was not renewed in time, another worker may own the job. */
function reportExpired(): void {
  const at = now();
  for (const lease of leases.values())
    if (lease.safeUntil <= at && !isOver(lease.claim, lease.index)) reportLost(lease);
}

function reportLost(lease: TrackedLease): void {
  if (lease.isReportedLost) return;
  lease.isReportedLost = true;
  // A waiting job does not begin. It may still be ours: merely forgotten, it would stay running until a rescue.
  if (leaveWaiting(lease.claim, lease.index)) {
    lease.isReleasing = true;
    return post({ type: "released", queues: [] });
  }
  post({ type: "lost", fence: fenceOf(lease) });
}

function fenceOf({ job, epoch, leaseId }: TrackedLease): Fence {
  return { job, epoch, leaseId };
}

/** The main thread sends heartbeats while it has jobs. Without them its event loop is blocked: name the kinds that it runs. */
function watchMainThread(): void {
  const at = now();
  const stillMs = isHolding() ? at - (heartbeat[0] ?? at) : 0;
  if (stillMs >= blockedMs) for (const claim of untracked.keys()) track(claim);
  if (stillMs < blockedMs) {
    if (blocked !== undefined)
      post({ type: "blocked", ms: Math.round(at - blocked.since), kinds: blocked.kinds });
    blocked = undefined;
    return;
  }
  blocked ??= { since: at - stillMs, kinds: blockingKinds(), warned: false };
  const shortest = Math.min(...[...leases.values()].map((lease) => lease.leaseMs));
  if (!blocked.warned && stillMs > shortest / 3) {
    blocked.warned = true;
    const message = "the event loop is blocked; leases are renewed, but nothing else is done";
    const ms = Math.round(stillMs);
    const line = { time: new Date().toISOString(), level: "warn", message, kinds: blocked.kinds, ms };
    // Not through the logger: it runs on the blocked thread.
    writeSync(2, `${JSON.stringify(line)}\n`);
  }
}

/** The kind whose handler was entered and has not yielded; if that is not known, every kind that runs. */
function blockingKinds(): string[] {
  const serial = heartbeat[1] ?? 0;
  const kinds = [...leases.values()]
    .filter((lease) => serial === 0 || lease.serial === serial)
    .map((lease) => lease.kind);
  return [...new Set(kinds.length > 0 ? kinds : [...leases.values()].map((lease) => lease.kind))];
}

function untilNext(): number {
  const at = now();
  if (!isHolding() && at >= receivedAt + lingerMs) return renewable ? idleMs : Math.max(1, tryAgainAt - at);
  let next = at + watchMs;
  if (!renewable) next = Math.min(next, tryAgainAt);
  for (const lease of leases.values()) if (at < lease.renewUntil) next = Math.min(next, lease.renewAt);
  return Math.max(1, next - at);
}

function post(message: FromThread): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
  parentPort?.postMessage(message);
}
