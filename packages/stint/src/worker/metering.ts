import { timestampMs } from "../db/timestamp.ts";
import type { AttemptOutcome, ClaimedJob } from "../model/job.ts";
import { DatabaseClock } from "../telemetry/clock.ts";
import type { KindMeter, Meter } from "../telemetry/meter.ts";
import type { Expired } from "../sql/expire.ts";
import type { Rescued } from "../sql/rescue.ts";

/** Counts what a worker does with its jobs. Thousands a second pass here: each costs one look-up and a few additions. */
export class Metering {
  readonly clock = new DatabaseClock();
  readonly #meter: Meter;
  /** By kind, for the queue it was last seen in, which is nearly always the same. */
  readonly #kinds = new Map<string, KindMeter>();
  #last: KindMeter | undefined;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** The wait ends now, by the estimate of the database's clock: a claim does not return the time. */
  claimed(jobs: readonly ClaimedJob[]): void {
    const now = this.clock.now();
    for (const job of jobs) {
      const kind = this.#of(job);
      kind.claimed += 1;
      kind.wait.add(Math.max(0, now - timestampMs(job.runAt)));
    }
  }

  /** The handler has ended after so long. */
  over(job: ClaimedJob, ms: number): void {
    this.#of(job).run.add(ms);
    if (job.tenant !== null) this.#meter.tenants.add(job.tenant, ms);
  }

  /** The outcome is recorded, and the job is in this state now. */
  recorded(job: ClaimedJob, outcome: AttemptOutcome, state: string): void {
    const kind = this.#of(job);
    if (outcome === "succeeded") {
      kind.succeeded += 1;
      kind.attemptsOfSucceeded += job.attempt;
      kind.attempts.add(job.attempt);
      return;
    }
    if (outcome === "failed" || outcome === "crashed") kind.failed += 1;
    else if (outcome === "timed-out") kind.timedOut += 1;
    else if (outcome === "snoozed") kind.snoozed += 1;
    else if (outcome === "parked") kind.parked += 1;
    else if (outcome === "released") kind.released += 1;
    if (state === "dead") kind.dead += 1;
    else if (state === "cancelled") kind.cancelled += 1;
    else if (outcome === "failed" || outcome === "crashed" || outcome === "timed-out") kind.retried += 1;
  }

  released(jobs: readonly ClaimedJob[]): void {
    for (const job of jobs) this.#of(job).released += 1;
  }

  leaseLost(job: ClaimedJob): void {
    this.#of(job).leaseLost += 1;
  }

  slow(job: ClaimedJob): void {
    this.#of(job).slow += 1;
  }

  stalled(job: ClaimedJob): void {
    this.#of(job).stalled += 1;
  }

  /** Jobs of any kind expired while they waited. */
  expired(jobs: readonly Expired[]): void {
    for (const { queue, kind } of jobs) {
      const meter = this.#meter.of(queue, kind);
      meter.expired += 1;
      meter.cancelled += 1;
    }
  }

  /** A claimed job expired before it began. */
  expiredBeforeBegin(job: ClaimedJob): void {
    this.#of(job).expired += 1;
  }

  /** Jobs of any worker and kind were rescued. */
  rescued(jobs: readonly Rescued[]): void {
    for (const { queue, kind, state } of jobs) {
      const meter = this.#meter.of(queue, kind);
      meter.rescued += 1;
      if (state === "dead") meter.dead += 1;
      else if (state === "cancelled") meter.cancelled += 1;
    }
  }

  #of({ queue, kind }: ClaimedJob): KindMeter {
    const last = this.#last;
    if (last?.kind === kind && last.queue === queue) return last;
    const known = this.#kinds.get(kind);
    if (known?.queue === queue) return (this.#last = known);
    const found = this.#meter.of(queue, kind);
    this.#kinds.set(kind, found);
    return (this.#last = found);
  }
}
