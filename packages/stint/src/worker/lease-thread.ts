/**
 * Keeps leases, on a thread and a connection of its own, so that a handler that blocks the event loop
 * does not lose its job to another worker while it still works on it.
 */
import { writeSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import { PgDb } from "../db/pg.ts";
import { Recovery } from "../runtime/recovery.ts";
import { Wakeable } from "../runtime/sleep.ts";
import { renew } from "../sql/renew.ts";
import type { FromThread, Held, LeaseThreadData, ToThread } from "./lease-messages.ts";

const data = workerData as LeaseThreadData;
const pulse = new Float64Array(data.pulse);
const idleMs = 3_600_000;
/** How often to look whether the main thread turns, and how long it may stand still unremarked. */
const watchMs = 250;
const blockedMs = 1_000;
/** How soon to ask again about a row that was locked. */
const lockedMs = 250;

type Keeping = Held & { renewAt: number; safeUntil: number; told: boolean };

const leases = new Map<string, Keeping>();
const timer = new Wakeable();
const recovery = new Recovery(Math.random, { baseMs: 100, capMs: 2_000 });
const db = new PgDb({
  connection: data.connection,
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
const stopping = new AbortController();
let renewAll = false;
let blocked: { since: number; kinds: readonly string[]; warned: boolean } | undefined;

// Never on the main thread's clock of `Date`: only durations count, and this one never jumps.
const now = (): number => performance.timeOrigin + performance.now();

parentPort?.on("message", (message: ToThread) => {
  if (message.type === "hold") for (const lease of message.leases) hold(lease);
  else if (message.type === "drop") drop(message.job, message.epoch);
  else if (message.type === "renew") renewAll = true;
  else stopping.abort();
  timer.wake();
});
void keepLeases();

function hold(lease: Held): void {
  leases.set(lease.job, {
    ...lease,
    renewAt: lease.sentAt + lease.leaseMs / 3,
    safeUntil: lease.sentAt + lease.leaseMs,
    told: false,
  });
}

function drop(job: string, epoch: number): void {
  // The same worker may hold the job again already, under a newer epoch.
  if (leases.get(job)?.epoch === epoch) leases.delete(job);
}

async function keepLeases(): Promise<void> {
  while (!stopping.signal.aborted) {
    const at = now();
    const due = [...leases.values()].filter(
      (lease) => at < lease.renewUntil && (renewAll || lease.renewAt <= at),
    );
    renewAll = false;
    if (due.length > 0) await renewLeases(due, at);
    tellExpired();
    watchMainThread();
    await timer.wait(untilNext(), stopping.signal);
  }
  await db.close();
  parentPort?.close();
}

async function renewLeases(due: readonly Keeping[], sentAt: number): Promise<void> {
  try {
    const answers = await renew(db, due);
    recovery.reset();
    for (const answer of answers) {
      const lease = leases.get(answer.job);
      // The answer may be about an earlier claim of a job that was settled and taken again meanwhile.
      if (lease === undefined || lease.epoch !== answer.epoch) continue;
      lease.renewAt = sentAt + lease.leaseMs / 3;
      // Counted from before the request: the true end can only be later.
      if (answer.renewed) lease.safeUntil = sentAt + lease.leaseMs;
      else if (answer.held) lease.renewAt = sentAt + lockedMs;
      else tell(lease);
      if (answer.cancelRequested) post({ type: "cancelled", job: lease.job, epoch: lease.epoch });
    }
  } catch (error) {
    const retryAt = now() + recovery.next();
    for (const lease of due) lease.renewAt = retryAt;
    post({ type: "trouble", message: error instanceof Error ? error.message : String(error) });
  }
}

/** A lease that was not renewed in time, or not any more, may be somebody else's by now. */
function tellExpired(): void {
  const at = now();
  for (const lease of leases.values()) if (lease.safeUntil <= at) tell(lease);
}

function tell(lease: Keeping): void {
  if (lease.told) return;
  lease.told = true;
  post({ type: "lost", job: lease.job, epoch: lease.epoch });
}

/** The main thread beats while it has jobs. If it stands still, name what it was running. */
function watchMainThread(): void {
  const at = now();
  const stillMs = leases.size === 0 ? 0 : at - (pulse[0] ?? at);
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
  if (leases.size === 0) return idleMs;
  const at = now();
  let next = at + watchMs;
  for (const lease of leases.values()) if (at < lease.renewUntil) next = Math.min(next, lease.renewAt);
  return Math.max(1, next - at);
}

function post(message: FromThread): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- A port between threads has no origin.
  parentPort?.postMessage(message);
}
