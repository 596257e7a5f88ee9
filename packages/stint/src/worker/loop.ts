import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { Recovery } from "../runtime/recovery.ts";
import { sleep, Wakeable, within } from "../runtime/sleep.ts";
import type { Claimer } from "./claimer.ts";
import { Leases } from "./leases.ts";
import type { Slots } from "./slots.ts";

export type LoopOptions = {
  readonly slots: Slots;
  readonly claimer: Claimer;
  readonly logger: Logger;
  /** How long to wait for a wake before looking anyway. */
  readonly pollMs: () => number;
  /** Keep the leases of these jobs and start their attempts; resolves when their outcomes are recorded. `sentAt` is from before the claim. */
  readonly start: (jobs: readonly ClaimedJob[], sentAt: number) => Promise<unknown>;
  /** Whether some handler goes on although it was told to stop. */
  readonly stuck: () => boolean;
  /** About to wait: see to it that wakes will be sent. True if they were not before, so one may have been missed. */
  readonly listen: () => Promise<boolean>;
};

/** The first wait after there was work; each one after it is twice as long, up to the poll. */
const shortestWaitMs = 250;

/** How long a suspect waits for an idle worker before a busy one makes room for it, and how long that may take. */
const suspectPatienceMs = 30_000;
const makeRoomMs = 30_000;
/** How often a busy worker, and an idle one that was told nothing, looks for suspects. */
const lookBusyMs = 5_000;
const lookIdleMs = 60_000;
/** A busy worker spends at most one part of its time alone with a suspect for so many parts among the others. */
const partsAmongOthers = 9;

/** The one loop of a worker: claim into free slots, for all queues at once, until told to stop. */
export class ClaimLoop {
  readonly #options: LoopOptions;
  readonly #wake = new Wakeable();
  readonly #recovery = new Recovery();
  #waits = 0;
  #makingRoom = false;
  #investigating = false;
  #lookIdleAt = 0;
  #lookBusyAt = 0;
  #roomNotMade = 0;
  #spentAlone = 0;
  #lastClaimAt = 0;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  /**
   * Monotonic time of the last claim that was answered; now, while none is to be sent for want of room or for a suspect's
   * sake. The loop's sign of health; 0 before the first.
   */
  get lastClaimAt(): number {
    return this.#investigating ? Leases.now() : this.#lastClaimAt;
  }

  /** There may be work, in this queue or in any. */
  hint(queue?: string): void {
    if (this.#options.slots.wet(queue)) this.#wake.wake();
  }

  /** A job waits to be run alone. */
  hintSuspect(): void {
    this.#lookIdleAt = 0;
    this.#wake.wake();
  }

  /** A slot became free. */
  freed(queue: string): void {
    const roomForMore = this.#options.slots.free(queue);
    if (roomForMore || this.#makingRoom || this.#options.slots.running === 0) this.#wake.wake();
  }

  /** Claims until `stopping`; then returns once nothing more will be claimed. Survives any outage. */
  async run(stopping: AbortSignal): Promise<void> {
    const { slots, logger, listen, pollMs } = this.#options;
    while (!stopping.aborted) {
      try {
        if ((await this.#fill(stopping)) || (await this.#investigate(stopping))) continue;
        if (!slots.saturated && (await listen())) {
          slots.wet();
          this.#waits = 0;
          continue;
        }
        // A wake decided on while nobody listened is not sent when its transaction commits at last: look soon, then
        // ever less often.
        const waitMs = Math.min(pollMs(), shortestWaitMs * 2 ** this.#waits++);
        const woken = await this.#wake.wait(waitMs * (0.8 + 0.4 * Math.random()), stopping);
        if (!woken) slots.wet();
        this.#recovery.reset();
      } catch (error) {
        logger.warn({ err: error }, "could not claim; trying again");
        await sleep(this.#recovery.next(), stopping);
        slots.wet();
      }
    }
  }

  /** One claim for every queue with room. True if there may be more to take. */
  async #fill(stopping: AbortSignal): Promise<boolean> {
    const { slots, claimer, start } = this.#options;
    const takes = slots.takes();
    if (takes.length === 0) {
      if (slots.saturated) this.#lastClaimAt = Leases.now();
      return false;
    }
    const sentAt = Leases.now();
    const jobs = await claimer.ready(takes, stopping);
    this.#lastClaimAt = sentAt;
    slots.claimed(takes, jobs);
    for (const job of jobs) slots.take(job.queue);
    if (jobs.length > 0) {
      this.#waits = 0;
      // There is other work: a worker that is idle between jobs must not spend all of that time on suspects.
      if (this.#spentAlone > 0) this.#lookIdleAt = sentAt + partsAmongOthers * this.#spentAlone;
      this.#spentAlone = 0;
    }
    void start(jobs, sentAt);
    return slots.takes().length > 0;
  }

  /**
   * Run one job that is suspected of killing its worker, with nobody beside it. It is claimed only once nothing else runs
   * here: a crash while it waited would be held against it. A worker with nothing to do looks at once; a busy one
   * makes room only for a suspect that has waited for long. True if there may be something to claim afterwards.
   */
  async #investigate(stopping: AbortSignal): Promise<boolean> {
    const { slots } = this.#options;
    const idle = slots.running === 0;
    if (Leases.now() < (idle ? this.#lookIdleAt : this.#lookBusyAt)) return false;
    try {
      return idle ? await this.#runAlone(stopping) : await this.#makeRoomAndRunAlone(stopping);
    } finally {
      this.#investigating = false;
    }
  }

  async #runAlone(stopping: AbortSignal): Promise<boolean> {
    const { slots, claimer, start } = this.#options;
    const sentAt = Leases.now();
    const job = await claimer.suspect(stopping);
    if (job === undefined) {
      this.#lookIdleAt = sentAt + lookIdleMs;
      return false;
    }
    this.#investigating = true;
    slots.take(job.queue);
    await within(longestMs, start([job], sentAt), stopping);
    this.#lookIdleAt = 0;
    this.#spentAlone = Leases.now() - sentAt;
    return true;
  }

  async #makeRoomAndRunAlone(stopping: AbortSignal): Promise<boolean> {
    const { claimer, stuck } = this.#options;
    const startedAt = Leases.now();
    this.#lookBusyAt = startedAt + lookBusyMs;
    // A handler that ignores its signal would never make room.
    if (stuck() || !(await claimer.suspectWaits(suspectPatienceMs))) return false;
    this.#investigating = true;
    const emptied = await this.#emptied(stopping);
    this.#roomNotMade = emptied ? 0 : this.#roomNotMade + 1;
    if (emptied) await this.#runAlone(stopping);
    const spentMs = Leases.now() - startedAt;
    // Twice as long each time in vain: where jobs are long, somebody else has the better chance.
    this.#lookBusyAt = Leases.now() + partsAmongOthers * spentMs * 2 ** Math.min(this.#roomNotMade, 6);
    return true;
  }

  /** Take nothing until nothing runs. False if that takes too long: somebody else may have the time. */
  async #emptied(stopping: AbortSignal): Promise<boolean> {
    const { slots } = this.#options;
    const until = Leases.now() + makeRoomMs;
    this.#makingRoom = true;
    try {
      while (slots.running > 0 && Leases.now() < until && !stopping.aborted)
        await this.#wake.wait(1_000, stopping);
    } finally {
      this.#makingRoom = false;
    }
    return slots.running === 0 && !stopping.aborted;
  }
}

/** An attempt's own timeout ends this wait. */
const longestMs = 2 ** 31 - 1;
