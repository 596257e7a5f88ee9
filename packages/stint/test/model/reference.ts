import type { AttemptOutcome, Fence } from "#stint/model/job.js";
import type { JobState, LiveState, TerminalState } from "#stint/model/state.js";

// What the SQL is meant to do, in plain TypeScript and without any idea of SQL. One call is one statement.

/** A moment: virtual milliseconds, then the order of the commands that set it, since real time passes between them. */
export type Moment = readonly [ms: number, order: number];

export type ModelJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly maxCrashes: number | null;
  state: JobState;
  runAt: Moment;
  attempts: number;
  crashes: number;
  interruptions: number;
  epoch: number;
  run: number;
  leaseId: string | null;
  leaseUntil: Moment | null;
  worker: string | null;
  cancelRequested: boolean;
  /** Given with the newest request to cancel it. */
  cancelReason: string | null;
  dedupeKey: string | null;
  dedupeUntil: "started" | "finished" | null;
  parkReason: string | null;
  /** A worker lifts it at its `runAt`. */
  parkTimed: boolean;
  reason: string | null;
  outcomes: AttemptOutcome[];
};

export type NewJob = {
  id: string;
  kind: string;
  queue: string;
  priority: number;
  maxCrashes: number | null;
  delayMs: number | null;
  dedupe: { key: string; until: "started" | "finished" | number } | null;
};

export class Reference {
  readonly jobs = new Map<string, ModelJob>();
  readonly windows = new Map<string, { job: string; until: number }>();
  #now = 0;
  #order = 0;

  tick(ms: number): void {
    this.#now += ms;
  }

  enqueue(batch: readonly NewJob[]): { id: string; created: boolean }[] {
    const order = ++this.#order;
    const answers = new Map<string, { id: string; created: boolean }>();
    // Everybody writes in the same order, so of two rows with one key the first in that order is the one.
    for (const job of [...batch].sort((a, b) => compare(sortKey(a), sortKey(b)))) {
      const holder = this.#holderOf(job);
      answers.set(
        job.id,
        holder === undefined ? { id: job.id, created: true } : { id: holder, created: false },
      );
      if (holder === undefined) this.#create(job, order);
    }
    return batch.map((job) => answers.get(job.id) ?? { id: "", created: false });
  }

  claim(
    queue: string,
    kinds: readonly string[],
    limit: number,
    worker: string,
    leaseId: string,
    leaseMs: number,
  ): Fence[] {
    const order = ++this.#order;
    return this.#in("ready")
      .filter((job) => job.queue === queue && kinds.includes(job.kind))
      .sort((a, b) => a.priority - b.priority || before(a.runAt, b.runAt) || compare(a.id, b.id))
      .slice(0, limit)
      .map((job) => this.#lease(job, worker, leaseId, [this.#now + leaseMs, order]));
  }

  /** Which of several quarantined jobs goes first is decided by microseconds the model does not have. */
  quarantined(): string[] {
    return this.#in("parked")
      .filter((job) => job.parkReason === "quarantine")
      .map((job) => job.id);
  }

  claimQuarantined(id: string, worker: string, leaseId: string, leaseMs: number): Fence {
    return this.#lease(this.#get(id), worker, leaseId, [this.#now + leaseMs, ++this.#order]);
  }

  renew(fence: Fence, leaseMs: number): { held: boolean; renewed: boolean; cancelRequested: boolean } {
    const job = this.#held(fence);
    if (job === undefined) return { held: false, renewed: false, cancelRequested: false };
    job.leaseUntil = [this.#now + leaseMs, ++this.#order];
    return { held: true, renewed: true, cancelRequested: job.cancelRequested };
  }

  finish(fence: Fence, state: TerminalState, reason: string | null, outcome: AttemptOutcome | null): boolean {
    const job = this.#held(fence);
    if (job === undefined) return false;
    job.state = state;
    job.reason = state === "cancelled" && job.cancelRequested ? (job.cancelReason ?? reason) : reason;
    if (outcome !== null) log(job, outcome);
    this.#end(job);
    return true;
  }

  requeue(
    fence: Fence,
    state: LiveState,
    delayMs: number | null,
    spent: boolean,
    outcome: AttemptOutcome,
  ): boolean {
    const job = this.#held(fence);
    if (job === undefined || job.cancelRequested) return false;
    const stillSuspected = delayMs === null && job.parkReason === "quarantine";
    job.state = stillSuspected ? "parked" : (delayMs ?? 0) <= 0 ? "ready" : state;
    if (delayMs !== null) job.runAt = [this.#now + delayMs, ++this.#order];
    if (!spent) {
      job.attempts--;
      job.interruptions++;
    }
    if (!stillSuspected) job.parkReason = null;
    job.reason = null;
    log(job, outcome);
    this.#unlease(job);
    return true;
  }

  park(fence: Fence, parkReason: string, reason: string | null, delayMs: number | null): boolean {
    const job = this.#held(fence);
    if (job === undefined || job.cancelRequested) return false;
    Object.assign(job, { state: "parked", parkReason, parkTimed: delayMs !== null, reason });
    job.runAt = [this.#now + (delayMs ?? 0), ++this.#order];
    job.attempts--;
    job.interruptions++;
    log(job, "parked");
    this.#unlease(job);
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
    this.#end(job);
    return "waiting";
  }

  runNow(id: string): string | undefined {
    const job = this.jobs.get(id);
    if (job === undefined || !["scheduled", "retrying", "parked"].includes(job.state)) return undefined;
    Object.assign(job, { state: "ready", ...unparked });
    job.runAt = [this.#now, ++this.#order];
    return job.queue;
  }

  replay(id: string): string | undefined {
    const job = this.jobs.get(id);
    if (job?.state !== "dead" && job?.state !== "cancelled") return undefined;
    Object.assign(job, { state: "ready", ...unparked, attempts: 0, crashes: 0, run: job.run + 1 });
    job.runAt = [this.#now, ++this.#order];
    this.#unlease(job);
    return job.queue;
  }

  rescue(maxCrashes: number): { job: string; state: JobState; crashes: number }[] {
    const order = ++this.#order;
    const lost = this.#in("running").filter((job) => (job.leaseUntil?.[0] ?? 0) < this.#now);
    for (const job of lost) {
      const limit = job.maxCrashes ?? maxCrashes;
      job.crashes++;
      job.attempts--;
      log(job, "crashed");
      if (job.cancelRequested) {
        job.state = "cancelled";
        job.reason = job.cancelReason ?? "cancelled while it ran; its worker died";
        this.#end(job);
      } else if (job.crashes >= limit && (job.parkReason === "quarantine" || limit === 1)) {
        job.state = "dead";
        job.reason = "worker died while running it";
        this.#end(job);
      } else {
        const suspected = job.crashes >= limit - 1;
        job.state = suspected ? "parked" : "ready";
        job.parkReason = suspected ? "quarantine" : null;
        job.reason = null;
        if (suspected) job.runAt = [this.#now, order];
        this.#unlease(job);
      }
    }
    return lost.map((job) => ({ job: job.id, state: job.state, crashes: job.crashes }));
  }

  promote(): { promoted: number; someWait: boolean } {
    const timed = this.#in("parked").filter((job) => job.parkTimed);
    const waiting = [...this.#in("scheduled"), ...this.#in("retrying"), ...timed];
    const due = waiting.filter((job) => job.runAt[0] <= this.#now);
    for (const job of due) Object.assign(job, { state: "ready", ...unparked });
    return { promoted: due.length, someWait: waiting.length > due.length };
  }

  #create(job: NewJob, order: number): void {
    const { id, kind, queue, priority, maxCrashes, delayMs, dedupe } = job;
    const forTime = typeof dedupe?.until === "number";
    this.jobs.set(id, {
      ...untouched,
      id,
      kind,
      queue,
      priority,
      maxCrashes,
      state: delayMs === null || delayMs <= 0 ? "ready" : "scheduled",
      runAt: [this.#now + (delayMs ?? 0), order],
      outcomes: [],
      dedupeKey: dedupe === null || forTime ? null : dedupe.key,
      dedupeUntil: dedupe === null || typeof dedupe.until === "number" ? null : dedupe.until,
    });
    if (dedupe !== null && typeof dedupe.until === "number") {
      this.windows.set(`${kind} ${dedupe.key}`, { job: id, until: this.#now + dedupe.until });
    }
  }

  #holderOf({ kind, dedupe }: NewJob): string | undefined {
    if (dedupe === null) return undefined;
    if (typeof dedupe.until === "number") {
      const window = this.windows.get(`${kind} ${dedupe.key}`);
      return window !== undefined && window.until > this.#now ? window.job : undefined;
    }
    return [...this.jobs.values()].find((job) => job.kind === kind && job.dedupeKey === dedupe.key)?.id;
  }

  #lease(job: ModelJob, worker: string, leaseId: string, leaseUntil: Moment): Fence {
    Object.assign(job, { state: "running", worker, leaseId, leaseUntil });
    job.attempts++;
    job.epoch++;
    if (job.dedupeUntil === "started") job.dedupeKey = null;
    return { job: job.id, epoch: job.epoch, leaseId };
  }

  #unlease(job: ModelJob): void {
    Object.assign(job, { leaseId: null, leaseUntil: null, worker: null });
  }

  /** The finished row keeps the worker and the lease. Its keys are free again. */
  #end(job: ModelJob): void {
    Object.assign(job, { leaseUntil: null, cancelRequested: false, dedupeKey: null, dedupeUntil: null });
    Object.assign(job, { parkReason: null, parkTimed: false });
  }

  #held({ job: id, epoch, leaseId }: Fence): ModelJob | undefined {
    const job = this.jobs.get(id);
    return job?.state === "running" && job.epoch === epoch && job.leaseId === leaseId ? job : undefined;
  }

  #in(state: JobState): ModelJob[] {
    return [...this.jobs.values()].filter((job) => job.state === state);
  }

  #get(id: string): ModelJob {
    const job = this.jobs.get(id);
    if (job === undefined) throw new Error(`the model has no job ${id}`);
    return job;
  }
}

const unparked = { parkReason: null, parkTimed: false, reason: null };

const untouched = {
  attempts: 0,
  crashes: 0,
  interruptions: 0,
  epoch: 0,
  run: 1,
  leaseId: null,
  leaseUntil: null,
  worker: null,
  cancelRequested: false,
  cancelReason: null,
  ...unparked,
};

function isEnded(job: ModelJob): boolean {
  return job.state === "succeeded" || job.state === "dead" || job.state === "cancelled";
}

function log(job: ModelJob, outcome: AttemptOutcome): void {
  if (job.outcomes.length >= 20) job.outcomes.splice(1, 1);
  job.outcomes.push(outcome);
}

function sortKey({ kind, dedupe, id }: NewJob): string {
  return `${kind} ${dedupe?.key ?? "~"} ${id}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function before(a: Moment, b: Moment): number {
  return a[0] - b[0] || a[1] - b[1];
}
