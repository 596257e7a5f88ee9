/**
 * Keeps leases, on a thread and a connection of its own, so that a handler that blocks the event loop
 * does not lose its job to another worker while it still works on it.
 *
 * No file of its own where it runs: scripts/embed.mjs puts this module and all its imports into one text, which the main
 * thread starts. It must not load anything by path.
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
import { wake } from "../sql/enqueue.ts";
import { renew } from "../sql/renew.ts";
import { leaseDeadlineMs } from "./deadlines.ts";
import { releaseUnbegun } from "./release.ts";
import { LeasePassword } from "./lease-password.ts";
import {
  stage,
  type FromThread,
  type LeasedClaim,
  type LeaseThreadData,
  type ToThread,
} from "./lease-messages.ts";

const data = workerData as LeaseThreadData;
const pulse = new Float64Array(data.pulse);
const idleMs = 3_600_000;
/** How often to look whether the main thread turns, and how long it may stand still unremarked. */
const watchMs = 250;
const blockedMs = 1_000;
/** How soon to ask again about a row that was locked. */
const lockedMs = 250;

type Keeping = Fence & {
  readonly kind: string;
  readonly serial: number;
  readonly leaseMs: number;
  readonly renewUntil: number;
  readonly claim: LeasedClaim;
  readonly index: number;
  renewAt: number;
  safeUntil: number;
  told: boolean;
  /** To be handed back; the database does not know it yet, so its lease is kept until then. */
  unwanted: boolean;
};

/** Claims whose leases are untracked. Most of their jobs end before one has to be renewed, and cost nothing here. */
const untracked = new Map<LeasedClaim, number>();
/** By fence: a stale and a current attempt of one job may both be here. */
const leases = new Map<string, Keeping>();
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
const patience = new RetryDelay(Math.random, { baseMs: 200, capMs: 2_000 });
let handBackAt = 0;
let renewAll = false;
let blocked: { since: number; kinds: readonly string[]; warned: boolean } | undefined;

// Never on the main thread's clock of `Date`: only durations count, and this one never jumps.
const now = (): number => performance.timeOrigin + performance.now();

parentPort?.on("message", (message: ToThread) => {
  // While anything is held, the loop turns by itself, and often enough.
  const turns = isHolding();
  if (message.type === "hold") for (const claim of message.claims) untracked.set(claim, trackAt(claim));
  else if (message.type === "renew") renewAll = true;
  else if (message.type === "password") password.receive(message.password);
  else stopping.abort();
  if (!turns || message.type !== "hold") timer.wake();
});
void keepLeases();

async function keepLeases(): Promise<void> {
  while (!stopping.signal.aborted) {
    const at = now();
    forgetOver();
    for (const [claim, dueAt] of untracked) if (renewAll || dueAt <= at) keep(claim);
    withdrawWaiting(at);
    const due = [...leases.values()].filter(
      (lease) => at < lease.renewUntil && (renewAll || lease.renewAt <= at),
    );
    renewAll = false;
    if (due.length > 0 || (!renewable && tryAgainAt <= at)) await renewLeases(due, at);
    await handBackUnwanted();
    tellExpired();
    watchMainThread();
    await timer.wait(untilNext(), stopping.signal);
  }
  await database.close();
  parentPort?.close();
}

/** When to look at a claim job by job: before the first lease of it is due, and when a job has waited in it for too long. */
function trackAt(claim: LeasedClaim): number {
  return claim.sentAt + Math.min(data.prefetchMs, Math.min(...claim.leaseMs) / 3);
}

function keep(claim: LeasedClaim): void {
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
      told: false,
      unwanted: false,
    });
  }
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
  for (const [key, { claim, index, unwanted }] of leases)
    if (isOver(claim, index) && !unwanted) leases.delete(key);
}

function isOver(claim: LeasedClaim, index: number): boolean {
  return stageOf(claim, index) >= stage.over;
}

/**
 * Jobs that found no slot in time go back for somebody else to take: from here, because the main thread may be standing still in
 * a handler, and they would wait for as long as that does.
 */
function withdrawWaiting(at: number): void {
  for (const lease of leases.values()) {
    if (at >= lease.claim.sentAt + data.prefetchMs && withdraw(lease.claim, lease.index))
      lease.unwanted = true;
  }
}

/** True if it was still waiting: the main thread will not begin it now. */
function withdraw(claim: LeasedClaim, index: number): boolean {
  return Atomics.compareExchange(claim.stages, index, stage.waiting, stage.released) === stage.waiting;
}

async function handBackUnwanted(): Promise<void> {
  const unwanted = [...leases.values()].filter((lease) => lease.unwanted);
  if (unwanted.length === 0 || now() < handBackAt) return;
  try {
    const { queues, left } = await releaseUnbegun(database, unwanted, deadline(unwanted));
    const staying = new Set(left);
    if (left.length === 0) patience.reset();
    else handBackAt = now() + patience.next();
    for (const lease of unwanted) if (!staying.has(lease)) leases.delete(keyOfFence(lease));
    post({ type: "released", queues });
    // From here as well: while the main thread stands still, nobody else would know.
    if (data.wake && queues.length > 0)
      await wake(
        database,
        queues.map((queue) => `ready:${queue}`),
      );
  } catch (error) {
    handBackAt = now() + patience.next();
    failed(error);
  }
}

async function renewLeases(due: readonly Keeping[], sentAt: number): Promise<void> {
  try {
    const answers = await renew(database, due, deadline(due));
    succeeded();
    for (const answer of answers) {
      const lease = leases.get(keyOfFence(answer));
      if (lease === undefined) continue;
      if (isOver(lease.claim, lease.index) && !lease.unwanted) continue;
      lease.renewAt = sentAt + lease.leaseMs / 3;
      // Counted from before the request: the true end can only be later.
      if (answer.renewed) lease.safeUntil = sentAt + lease.leaseMs;
      else if (answer.held) lease.renewAt = sentAt + lockedMs;
      else tell(lease);
      if (answer.cancelRequested) post({ type: "cancelled", fence: fenceOf(lease) });
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
  post({ type: "trouble", message, transient: isTransient(error) });
}

/** A connection that stands still is given up while there is time to try another. */
function deadline(due: readonly Keeping[]): RunOptions {
  return { deadlineMs: leaseDeadlineMs(due.map(({ leaseMs }) => leaseMs)) };
}

/** A lease that was not renewed in time, or not any more, may be somebody else's by now. */
function tellExpired(): void {
  const at = now();
  for (const lease of leases.values())
    if (lease.safeUntil <= at && !isOver(lease.claim, lease.index)) tell(lease);
}

function tell(lease: Keeping): void {
  if (lease.told) return;
  lease.told = true;
  // One that waits for a slot is not begun. It may still be ours, and would then wait for a rescue if it were merely forgotten.
  if (withdraw(lease.claim, lease.index)) {
    lease.unwanted = true;
    return post({ type: "released", queues: [] });
  }
  post({ type: "lost", fence: fenceOf(lease) });
}

function fenceOf({ job, epoch, leaseId }: Keeping): Fence {
  return { job, epoch, leaseId };
}

/** The main thread beats while it has jobs. If it stands still, name what it was running. */
function watchMainThread(): void {
  const at = now();
  const stillMs = isHolding() ? at - (pulse[0] ?? at) : 0;
  if (stillMs >= blockedMs) for (const claim of untracked.keys()) keep(claim);
  if (stillMs < blockedMs) {
    if (blocked !== undefined)
      post({ type: "blocked", ms: Math.round(at - blocked.since), kinds: blocked.kinds });
    blocked = undefined;
    return;
  }
  blocked ??= { since: at - stillMs, kinds: suspects(), warned: false };
  const shortest = Math.min(...[...leases.values()].map((lease) => lease.leaseMs));
  if (!blocked.warned && stillMs > shortest / 3) {
    blocked.warned = true;
    const message = "the event loop stands still; leases are renewed, but nothing else is done";
    const ms = Math.round(stillMs);
    const line = { time: new Date().toISOString(), level: "warn", message, kinds: blocked.kinds, ms };
    // Here, not through the logger: that one is on the thread that stands still.
    writeSync(2, `${JSON.stringify(line)}\n`);
  }
}

/** The kind whose handler was entered and has not yielded; failing that, every kind that runs. */
function suspects(): string[] {
  const serial = pulse[1] ?? 0;
  const kinds = [...leases.values()]
    .filter((lease) => serial === 0 || lease.serial === serial)
    .map((lease) => lease.kind);
  return [...new Set(kinds.length > 0 ? kinds : [...leases.values()].map((lease) => lease.kind))];
}

function untilNext(): number {
  const at = now();
  if (!isHolding()) return renewable ? idleMs : Math.max(1, tryAgainAt - at);
  let next = at + watchMs;
  if (!renewable) next = Math.min(next, tryAgainAt);
  for (const lease of leases.values()) if (at < lease.renewUntil) next = Math.min(next, lease.renewAt);
  return Math.max(1, next - at);
}

function post(message: FromThread): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
  parentPort?.postMessage(message);
}
