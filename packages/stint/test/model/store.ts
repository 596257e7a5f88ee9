import type { Fence } from "#stint/model/job.js";
import type { JobState } from "#stint/model/state.js";
import { unparked, untouched, type ModelJob, type Moment, type NewJob } from "./job.ts";
import { Waits } from "./waits.ts";

/** The job that waits behind the holder of a dedupe key. */
export type Latest = { job: string; behind: string; until: "started" | "finished" };

/** The jobs of the model, its clock, and what every way to create, lease and end a job has in common. */
export class Store {
  readonly jobs = new Map<string, ModelJob>();
  readonly windows = new Map<string, { job: string; until: number }>();
  readonly latest = new Map<string, Latest>();
  readonly waits = new Waits();
  /** How many enqueues created nothing. */
  readonly duplicates = { existing: 0, replaced: 0, deferred: 0 };
  protected now = 0;
  protected order = 0;

  tick(ms: number): void {
    this.now += ms;
  }

  protected create(job: NewJob, order: number, runAt: Moment = [this.now + (job.delayMs ?? 0), order]): void {
    const { id, kind, queue, priority, maxCrashes, payload, dedupe } = job;
    const until = dedupe?.until ?? null;
    this.jobs.set(id, {
      ...untouched,
      id,
      kind,
      queue,
      priority,
      maxCrashes,
      payload,
      state: this.due(runAt),
      createdAt: [this.now, order],
      runAt,
      outcomes: [],
      dedupeKey: typeof until === "string" && dedupe !== null ? dedupe.key : null,
      dedupeUntil: typeof until === "string" ? until : null,
    });
    if (dedupe !== null && typeof until === "number") {
      this.windows.set(`${kind} ${dedupe.key}`, { job: id, until: this.now + until });
    }
  }

  protected due(runAt: Moment): "scheduled" | "ready" {
    return runAt[0] > this.now ? "scheduled" : "ready";
  }

  protected holderOf({ kind, dedupe }: NewJob): string | undefined {
    if (dedupe === null) return undefined;
    if (typeof dedupe.until === "number") {
      const window = this.windows.get(`${kind} ${dedupe.key}`);
      return window !== undefined && window.until > this.now ? window.job : undefined;
    }
    return [...this.jobs.values()].find((job) => job.kind === kind && job.dedupeKey === dedupe.key)?.id;
  }

  protected lease(job: ModelJob, worker: string, leaseId: string, leaseUntil: Moment): Fence {
    Object.assign(job, { state: "running", worker, leaseId, leaseUntil });
    job.attempts++;
    job.epoch++;
    if (job.dedupeUntil === "started") job.dedupeKey = null;
    return { job: job.id, epoch: job.epoch, leaseId };
  }

  protected unlease(job: ModelJob): void {
    Object.assign(job, { leaseId: null, leaseUntil: null, worker: null });
    if (job.plan !== null) job.plan.stale = true;
  }

  /** The finished row keeps the worker and the lease. Its keys are free again. */
  protected end(job: ModelJob): void {
    const wasCancelled = job.cancelRequested || job.state === "cancelled";
    Object.assign(job, { leaseUntil: null, cancelRequested: false, dedupeKey: null, dedupeUntil: null });
    Object.assign(job, { parkReason: null, parkTimed: false });
    this.makeNextRun(job, wasCancelled);
    for (const [key, { job: next, behind, until }] of this.latest)
      if (behind === job.id) this.lift(key, this.get(next), until);
  }

  /**
   * Cancelling ends a series, also if the handler succeeds after the cancel was requested. A success counts only if its own attempt planned
   * the next run.
   */
  protected makeNextRun(job: ModelJob, wasCancelled: boolean): void {
    const { plan } = job;
    if (plan === null || plan.made) return;
    if (wasCancelled || (job.state === "succeeded" && plan.stale)) {
      job.plan = null;
      return;
    }
    plan.made = true;
    this.create(plan.next, ++this.order, plan.runAt);
  }

  /** What waits behind a job that ended takes its key, unless another job has it already. */
  protected lift(key: string, job: ModelJob, until: Latest["until"]): void {
    const dedupeKey = key.slice(job.kind.length + 1);
    const holder = [...this.jobs.values()].find(
      (one) => one.kind === job.kind && one.dedupeKey === dedupeKey,
    );
    if (holder !== undefined) {
      this.latest.set(key, { job: job.id, behind: holder.id, until });
      return;
    }
    this.latest.delete(key);
    if (job.parkReason !== "latest") return;
    Object.assign(job, { state: this.due(job.runAt), ...unparked, dedupeKey, dedupeUntil: until });
  }

  protected held({ job: id, epoch, leaseId }: Fence): ModelJob | undefined {
    const job = this.jobs.get(id);
    return job?.state === "running" && job.epoch === epoch && job.leaseId === leaseId ? job : undefined;
  }

  protected moment(): Moment {
    return [this.now, ++this.order];
  }

  protected in(state: JobState): ModelJob[] {
    return [...this.jobs.values()].filter((job) => job.state === state);
  }

  protected get(id: string): ModelJob {
    const job = this.jobs.get(id);
    if (job === undefined) throw new Error(`the model has no job ${id}`);
    return job;
  }
}
