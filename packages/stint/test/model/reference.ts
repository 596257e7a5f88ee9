import type { AttemptOutcome, Fence } from "#stint/model/job.js";
import type { EnqueueStatus } from "#stint/model/enqueue-status.js";
import type { JobState, LiveState, TerminalState } from "#stint/model/state.js";
import {
  before,
  byKey,
  compare,
  earlier,
  isEnded,
  later,
  log,
  unparked,
  type ModelJob,
  type Moment,
  type NewJob,
} from "./job.ts";
import { Store, type Latest } from "./store.ts";
import type { NextWait } from "./waits.ts";

// What the SQL is meant to do, in plain TypeScript and without any idea of SQL. One call is one statement.

type Enqueued = { id: string; status: EnqueueStatus };

export type JobChange = { payload: number | null; delayMs: number | null; priority: number | null };

/** The reasons that `runNow` lifts. */
const liftable = new Set<string | null>(["quarantine", "review", "sleep"]);

export class Reference extends Store {
  enqueue(batch: readonly NewJob[]): Enqueued[] {
    const order = ++this.order;
    const results = new Map<string, Enqueued>();
    // Everybody writes in the same order, so of two rows with one key the first in that order is the one.
    for (const job of [...batch].sort(byKey)) {
      const result = this.#enqueueOne(job, order);
      results.set(job.id, result);
      if (result.status !== "created") this.duplicates[result.status] += 1;
    }
    return batch.map((job) => results.get(job.id) as Enqueued);
  }

  claim(
    queue: string,
    kinds: readonly string[],
    limit: number,
    worker: string,
    leaseId: string,
    leaseMs: number,
  ): Fence[] {
    const order = ++this.order;
    return this.in("ready")
      .filter((job) => job.queue === queue && kinds.includes(job.kind))
      .sort((a, b) => a.priority - b.priority || before(a.runAt, b.runAt) || compare(a.id, b.id))
      .slice(0, limit)
      .map((job) => this.lease(job, worker, leaseId, [this.now + leaseMs, order]));
  }

  /** Which of several quarantined jobs goes first is decided by microseconds the model does not have. */
  quarantined(): string[] {
    return this.in("parked")
      .filter((job) => job.parkReason === "quarantine")
      .map((job) => job.id);
  }

  claimQuarantined(id: string, worker: string, leaseId: string, leaseMs: number): Fence {
    return this.lease(this.get(id), worker, leaseId, [this.now + leaseMs, ++this.order]);
  }

  renew(fence: Fence, leaseMs: number): { held: boolean; renewed: boolean; cancelRequested: boolean } {
    const job = this.held(fence);
    if (job === undefined) return { held: false, renewed: false, cancelRequested: false };
    job.leaseUntil = [this.now + leaseMs, ++this.order];
    return { held: true, renewed: true, cancelRequested: job.cancelRequested };
  }

  finish(fence: Fence, state: TerminalState, reason: string | null, outcome: AttemptOutcome | null): boolean {
    const job = this.held(fence);
    if (job === undefined) return false;
    job.state = state;
    job.reason = state === "cancelled" && job.cancelRequested ? (job.cancelReason ?? reason) : reason;
    if (outcome !== null) log(job, outcome);
    this.end(job);
    return true;
  }

  requeue(
    fence: Fence,
    state: LiveState,
    delayMs: number | null,
    spent: boolean,
    outcome: AttemptOutcome,
  ): boolean {
    const job = this.held(fence);
    if (job === undefined || job.cancelRequested) return false;
    const stillSuspected = delayMs === null && job.parkReason === "quarantine";
    job.state = stillSuspected ? "parked" : (delayMs ?? 0) <= 0 ? "ready" : state;
    if (delayMs !== null) job.runAt = [this.now + delayMs, ++this.order];
    if (!spent) {
      job.attempts--;
      job.interruptions++;
    }
    if (!stillSuspected) job.parkReason = null;
    job.reason = null;
    log(job, outcome);
    this.unlease(job);
    return true;
  }

  /** The handler sleeps, or waits for a signal. Nothing is logged. */
  suspend(fence: Fence, wait: NextWait, delayMs: number | null): boolean {
    const job = this.held(fence);
    if (job === undefined || job.cancelRequested) return false;
    const now = this.moment();
    const { until, signalled } = this.waits.begin(job.id, wait, delayMs === null ? null : plus(now, delayMs));
    if (signalled) {
      Object.assign(job, { state: "ready", ...unparked, runAt: now });
    } else {
      const reason = wait.awaits === null ? null : `waits for signal ${wait.awaits}`;
      const parkReason = wait.awaits === null ? "sleep" : "signal";
      Object.assign(job, {
        state: "parked",
        parkReason,
        parkTimed: until !== null,
        reason,
        runAt: until ?? now,
      });
    }
    job.attempts--;
    job.interruptions++;
    this.unlease(job);
    return true;
  }

  nextWait(job: string, awaits: string | null): NextWait {
    return this.waits.next(job, awaits, this.now);
  }

  receive(fence: Fence, wait: NextWait): "received" | "timed-out" | "none" | "lost" {
    return this.held(fence) === undefined ? "lost" : this.waits.receive(fence.job, wait, this.now);
  }

  signal(id: string, target: string, name: string): "sent" | "ended" | "absent" {
    const job = this.jobs.get(target);
    if (job === undefined) return "absent";
    if (isEnded(job)) return "ended";
    this.waits.send(id, target, name);
    return "sent";
  }

  /** `readyInOrder`: the ready jobs in the order of their run times, which the model cannot know for jobs of one statement. */
  deliver(readyInOrder: readonly string[]): { found: number; delivered: number } {
    const { found, awaited } = this.waits.deliver();
    for (const id of readyInOrder) {
      const job = this.get(id);
      if (!awaited.has(id) || job.parkReason !== "signal") continue;
      Object.assign(job, { state: "ready", ...unparked, runAt: this.moment() });
    }
    return { found, delivered: found };
  }

  planNextRun(fence: Fence, id: string, delayMs: number): boolean {
    const job = this.held(fence);
    if (job === undefined) return false;
    if (job.plan?.made === true) return true;
    const { kind, queue, priority, maxCrashes, payload, dedupeKey, dedupeUntil } = job;
    const dedupe =
      dedupeKey === null || dedupeUntil === null
        ? null
        : { key: dedupeKey, until: dedupeUntil, replace: null, maxWaitMs: null };
    const next: NewJob = { id, kind, queue, priority, maxCrashes, payload, delayMs, dedupe };
    job.plan = { next, runAt: plus(this.moment(), delayMs), stale: false, made: false };
    return true;
  }

  change(id: string, { payload, delayMs, priority }: JobChange): "changed" | "refused" | "absent" {
    const job = this.jobs.get(id);
    if (job === undefined) return "absent";
    const isParked = job.state === "parked";
    const isMidway = isParked && (job.parkReason === "sleep" || job.parkReason === "signal");
    if (isEnded(job) || job.state === "running" || (payload !== null && isMidway)) return "refused";
    if (delayMs !== null && isParked && job.parkReason !== "latest") return "refused";
    const now = this.moment();
    if (delayMs !== null) {
      job.runAt = plus(now, delayMs);
      if (!isParked && delayMs === 0) job.state = "ready";
      else if (job.state === "ready") job.state = "scheduled";
    } else if (job.state === "ready" && priority !== null && priority !== job.priority) {
      job.runAt = now;
    }
    job.priority = priority ?? job.priority;
    if (payload !== null) this.#setPayload(job, payload);
    return "changed";
  }

  complete(id: string): string | undefined {
    const job = this.jobs.get(id);
    if (job === undefined || isEnded(job) || job.state === "running") return undefined;
    Object.assign(job, { state: "succeeded", reason: null });
    this.end(job);
    return job.kind;
  }

  park(fence: Fence, parkReason: string, reason: string | null, delayMs: number | null): boolean {
    const job = this.held(fence);
    if (job === undefined || job.cancelRequested) return false;
    Object.assign(job, { state: "parked", parkReason, parkTimed: delayMs !== null, reason });
    job.runAt = [this.now + (delayMs ?? 0), ++this.order];
    job.attempts--;
    job.interruptions++;
    log(job, "parked");
    this.unlease(job);
    return true;
  }

  cancel(id: string, reason: string): "running" | "waiting" | undefined {
    const job = this.jobs.get(id);
    if (job?.state === "running") {
      job.cancelRequested = true;
      job.cancelReason = reason;
      return "running";
    }
    if (job === undefined || isEnded(job)) return undefined;
    job.state = "cancelled";
    job.reason = reason;
    this.end(job);
    return "waiting";
  }

  runNow(id: string): string | undefined {
    const job = this.jobs.get(id);
    if (job === undefined || !["scheduled", "retrying", "parked"].includes(job.state)) return undefined;
    if (job.state === "parked" && !liftable.has(job.parkReason)) return undefined;
    Object.assign(job, { state: "ready", ...unparked });
    job.runAt = this.moment();
    this.waits.awake(id, job.runAt);
    return job.queue;
  }

  replay(id: string): string | undefined {
    const job = this.jobs.get(id);
    if (job?.state !== "dead" && job?.state !== "cancelled") return undefined;
    Object.assign(job, { state: "ready", ...unparked, attempts: 0, crashes: 0, run: job.run + 1 });
    job.runAt = [this.now, ++this.order];
    this.unlease(job);
    return job.queue;
  }

  rescue(maxCrashes: number): { job: string; state: JobState; crashes: number }[] {
    const order = ++this.order;
    const lost = this.in("running").filter((job) => (job.leaseUntil?.[0] ?? 0) < this.now);
    for (const job of lost) {
      const limit = job.maxCrashes ?? maxCrashes;
      job.crashes++;
      job.attempts--;
      log(job, "crashed");
      if (job.cancelRequested) {
        job.state = "cancelled";
        job.reason = job.cancelReason ?? "cancelled while it ran; its worker died";
        this.end(job);
      } else if (job.crashes >= limit && (job.parkReason === "quarantine" || limit === 1)) {
        job.state = "dead";
        job.reason = "worker died while running it";
        this.end(job);
      } else {
        const suspected = job.crashes >= limit - 1;
        job.state = suspected ? "parked" : "ready";
        job.parkReason = suspected ? "quarantine" : null;
        job.reason = null;
        if (suspected) job.runAt = [this.now, order];
        this.unlease(job);
      }
    }
    return lost.map((job) => ({ job: job.id, state: job.state, crashes: job.crashes }));
  }

  promote(): { promoted: number; someWait: boolean } {
    const timed = this.in("parked").filter((job) => job.parkTimed);
    const waiting = [...this.in("scheduled"), ...this.in("retrying"), ...timed];
    const due = waiting.filter((job) => job.runAt[0] <= this.now);
    for (const job of due) Object.assign(job, { state: "ready", ...unparked });
    return { promoted: due.length, someWait: waiting.length > due.length };
  }

  #enqueueOne(row: NewJob, order: number): Enqueued {
    const existing = this.holderOf(row);
    if (existing === undefined) {
      this.create(row, order);
      return { id: row.id, status: "created" };
    }
    const { dedupe } = row;
    if (dedupe === null || dedupe.replace === null) return { id: existing, status: "existing" };
    const key = `${row.kind} ${dedupe.key}`;
    const behind = this.jobs.get(this.latest.get(key)?.job ?? "");
    if (behind?.parkReason === "latest") return this.#replace(behind, row, order);
    this.latest.delete(key);
    const holder = this.get(existing);
    if (["scheduled", "ready", "retrying"].includes(holder.state)) return this.#replace(holder, row, order);
    this.create({ ...row, dedupe: null }, order);
    Object.assign(this.get(row.id), { state: "parked", parkReason: "latest" });
    this.latest.set(key, { job: row.id, behind: existing, until: dedupe.until as Latest["until"] });
    return { id: row.id, status: "deferred" };
  }

  #replace(job: ModelJob, row: NewJob, order: number): Enqueued {
    const { replace, maxWaitMs } = row.dedupe as NonNullable<NewJob["dedupe"]>;
    const was = job.runAt;
    if (replace !== "payload") {
      const wanted: Moment = row.delayMs === null ? was : [this.now + row.delayMs, order];
      const bounded = maxWaitMs === null ? wanted : earlier(wanted, plus(job.createdAt, maxWaitMs));
      job.runAt = job.state === "retrying" ? later(bounded, was) : bounded;
      if (job.state === "scheduled" || job.state === "ready") job.state = this.due(job.runAt);
    }
    if (replace !== "run_at") this.#setPayload(job, row.payload);
    return { id: job.id, status: before(job.runAt, was) > 0 ? "deferred" : "replaced" };
  }

  /** A new payload has all its attempts, and nothing of what earlier ones remembered. */
  #setPayload(job: ModelJob, payload: number): void {
    Object.assign(job, { payload, attempts: 0 });
    this.waits.forget(job.id);
    if (job.plan?.made === false) job.plan.next.payload = payload;
  }
}

function plus([ms, order]: Moment, delayMs: number): Moment {
  return [ms + delayMs, order];
}
