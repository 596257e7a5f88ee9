import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { jitter, pauseAfter, sleep, Wakeable, settledWithin } from "../runtime/sleep.ts";
import type { Take } from "../sql/claim.ts";
import type { Claimer } from "./claimer.ts";
import { Floors } from "./floors.ts";
import type { Slots } from "./slots.ts";

export type LoopOptions = {
  readonly slots: Slots;
  readonly claimer: Claimer;
  readonly logger: Logger;
  /** How long to wait for a wake, at first, before looking anyway. */
  readonly pollMs: () => number;
  /** Keep the leases of these jobs and start their attempts as there are slots. `sentAt` is from before the claim. */
  readonly accept: (jobs: readonly ClaimedJob[], sentAt: number) => void;
  /** Run this job, which has its slot already. Resolves when its outcome is recorded. */
  readonly runAlone: (job: ClaimedJob, sentAt: number) => Promise<unknown>;
  /** Whether nothing is to be claimed: leases cannot be renewed, or too many outcomes wait to be recorded. */
  readonly behind: () => boolean;
  /** Whether some handler goes on although it was told to stop. */
  readonly stuck: () => boolean;
  /** About to wait: see to it that wakes will be sent. True if they were not before, so one may have been missed. */
  readonly listen: () => Promise<boolean>;
};

/** The first wait after there was work; each one after it is twice as long, until looking around is left to the glances. */
const shortestWaitMs = 250;
const mostWaits = 5;

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
  readonly #retryDelay = new RetryDelay();
  readonly #floors = new Floors();
  #waits = 0;
  #pauseUntil = 0;
  #makingRoom = false;
  #investigating = false;
  #lookIdleAt = 0;
  #lookBusyAt = 0;
  #restFromSuspectsUntil = 0;
  #roomNotMade = 0;
  #spentAlone = 0;
  #lastClaimAt = 0;
  #turnedAt: number | undefined;

  constructor(options: LoopOptions) {
    this.#options = options;
  }

  /**
   * Monotonic time of the last claim that was answered; now, while none is to be sent for want of room or for a suspect's
   * sake. The loop's sign of health; 0 before the first.
   */
  get lastClaimAt(): number {
    return this.#investigating ? monotonicMs() : this.#lastClaimAt;
  }

  /** How long it has been at one turn, a claim and what belongs to it; 0 while it waits, or runs a suspect. */
  get turnMs(): number {
    return this.#turnedAt === undefined || this.#investigating ? 0 : monotonicMs() - this.#turnedAt;
  }

  /** Whether it sends nothing until it is told of something. */
  get quiet(): boolean {
    return this.#waits > mostWaits && this.#floors.owedInMs(0) === undefined;
  }

  /** There may be work, in this queue or in any. */
  hint(queue?: string): void {
    if (this.#options.slots.mayHaveWork(queue)) this.#wake.wake();
  }

  /** A job has just become a suspect, to be run alone. */
  hintSuspect(): void {
    this.#lookIdleAt = 0;
    this.#wake.wake();
  }

  /** Some suspect is waiting: looked for when it may be, not sooner. */
  seeSuspect(): void {
    this.#lookIdleAt = Math.min(this.#lookIdleAt, this.#restFromSuspectsUntil);
    this.#wake.wake();
  }

  /** Jobs that waited here are gone. */
  roomMade(): void {
    this.#wake.wake();
  }

  /** A slot became free, or an outcome was recorded: there may be room for more. */
  freed(queue: string): void {
    const { slots, behind } = this.#options;
    if (behind()) return;
    if (this.#makingRoom || slots.wants(queue, monotonicMs()) || slots.busy === 0) this.#wake.wake();
  }

  /** Claims until `stopping`; then returns once nothing more will be claimed. Survives any outage. */
  async run(stopping: AbortSignal): Promise<void> {
    const { slots, logger, listen, pollMs } = this.#options;
    while (!stopping.aborted) {
      this.#turnedAt = monotonicMs();
      try {
        await this.#pause(stopping);
        if ((await this.#fill(stopping)) || (await this.#investigate(stopping))) continue;
        if (!slots.saturated && (await listen())) {
          slots.mayHaveWork();
          this.#waits = 0;
          continue;
        }
        // A wake decided on while nobody listened is not sent when its transaction commits at last: look soon, then
        // ever less often.
        const restMs =
          this.#waits < mostWaits ? jitter(Math.min(pollMs(), shortestWaitMs * 2 ** this.#waits)) : Infinity;
        this.#waits += 1;
        this.#turnedAt = undefined;
        const sweepMs = this.#sweepInMs();
        const woken = await this.#wake.wait(Math.min(restMs, sweepMs), stopping);
        if (!woken && restMs <= sweepMs) slots.mayHaveWork();
        else if (!woken) for (const queue of this.#floors.owed(monotonicMs())) slots.mayHaveWork(queue);
        this.#retryDelay.reset();
      } catch (error) {
        logger.warn({ err: error }, "could not claim; trying again");
        await sleep(this.#retryDelay.next(), stopping);
        slots.mayHaveWork();
      }
    }
  }

  /**
   * After a claim that took all there was. In a stream of jobs each would otherwise be claimed by itself, as soon as it is told
   * of, and a worker with time to spare would keep the database busy; the jobs of a moment share a claim instead.
   */
  async #pause(stopping: AbortSignal): Promise<void> {
    const restMs = this.#pauseUntil - monotonicMs();
    if (restMs > 0) await sleep(restMs, stopping);
  }

  /** Until a sweep has been there, what lies behind the floors is not known: how long until one may be sent, if there is room. */
  #sweepInMs(): number {
    const { slots, behind } = this.#options;
    if (slots.saturated || behind()) return Infinity;
    const at = monotonicMs();
    return Math.min(this.#floors.owedInMs(at) ?? Infinity, slots.searchInMs(at));
  }

  /** One claim for every pool with room. True if there may be more to take. */
  async #fill(stopping: AbortSignal): Promise<boolean> {
    const { slots } = this.#options;
    await this.#search();
    const takes = this.#takes();
    if (takes.length === 0) {
      if (slots.saturated) this.#lastClaimAt = monotonicMs();
      return this.#isToSearch();
    }
    await this.#claim(takes, stopping);
    this.#retryDelay.reset();
    return this.#takes().length > 0 || this.#isToSearch();
  }

  #isToSearch(): boolean {
    const { slots, behind } = this.#options;
    return !behind() && slots.searchInMs(monotonicMs()) === 0;
  }

  /** Have queues with ready jobs named, for pools with more queues than a claim asks. */
  async #search(): Promise<void> {
    const { slots, claimer } = this.#options;
    const { search } = slots;
    if (search === undefined || !this.#isToSearch()) return;
    const sentAt = monotonicMs();
    const found = await claimer.readyQueues(search.start());
    search.done(found, { sentAt, at: monotonicMs() });
    this.#lastClaimAt = sentAt;
    for (const queue of found.queues) slots.mayHaveWork(queue);
  }

  #takes(): Take[] {
    const { slots, behind } = this.#options;
    return behind() ? [] : slots.takes(monotonicMs());
  }

  async #claim(takes: readonly Take[], stopping: AbortSignal): Promise<void> {
    const { slots, claimer, accept } = this.#options;
    const sentAt = monotonicMs();
    const queues = takes.map((take) => take.queue);
    const floors = this.#floors.from(queues, sentAt);
    const jobs = await claimer.ready(takes, floors, stopping);
    const at = monotonicMs();
    this.#lastClaimAt = sentAt;
    const full = slots.claimed(takes, jobs, { sentAt, at });
    this.#pauseUntil = full.size > 0 || slots.isUnasked ? 0 : at + pauseAfter(at - sentAt);
    this.#floors.claimed(queues, jobs, at, floors === undefined ? { sentAt, full } : undefined);
    if (jobs.length > 0) {
      this.#waits = 0;
      // There is other work: a worker that is idle between jobs must not spend all of that time on suspects.
      if (this.#spentAlone > 0)
        this.#restFromSuspectsUntil = this.#lookIdleAt = sentAt + partsAmongOthers * this.#spentAlone;
      this.#spentAlone = 0;
      accept(jobs, sentAt);
    }
  }

  /**
   * Run one job that is suspected of killing its worker, with nobody beside it. It is claimed only once nothing else runs
   * here: a crash while it waited would be held against it. A worker with nothing to do looks at once; a busy one
   * makes room only for a suspect that has waited for long. True if there may be something to claim afterwards.
   */
  async #investigate(stopping: AbortSignal): Promise<boolean> {
    const { slots, behind } = this.#options;
    const idle = slots.busy === 0;
    if (behind() || monotonicMs() < (idle ? this.#lookIdleAt : this.#lookBusyAt)) return false;
    try {
      return idle ? await this.#runAlone(stopping) : await this.#makeRoomAndRunAlone(stopping);
    } finally {
      this.#investigating = false;
    }
  }

  async #runAlone(stopping: AbortSignal): Promise<boolean> {
    const { slots, claimer, runAlone } = this.#options;
    const sentAt = monotonicMs();
    const job = await claimer.suspect(stopping);
    if (job === undefined) {
      this.#lookIdleAt = sentAt + lookIdleMs;
      return false;
    }
    this.#investigating = true;
    slots.take(job.queue);
    // The attempt's own timeout ends this wait.
    await settledWithin(Infinity, runAlone(job, sentAt), stopping);
    this.#lookIdleAt = 0;
    this.#spentAlone = monotonicMs() - sentAt;
    return true;
  }

  async #makeRoomAndRunAlone(stopping: AbortSignal): Promise<boolean> {
    const { claimer, stuck } = this.#options;
    const startedAt = monotonicMs();
    this.#lookBusyAt = startedAt + lookBusyMs;
    // A handler that ignores its signal would never make room.
    if (stuck() || !(await claimer.suspectWaits(suspectPatienceMs))) return false;
    this.#investigating = true;
    const emptied = await this.#emptied(stopping);
    this.#roomNotMade = emptied ? 0 : this.#roomNotMade + 1;
    if (emptied) await this.#runAlone(stopping);
    const spentMs = monotonicMs() - startedAt;
    // Twice as long each time in vain: where jobs are long, somebody else has the better chance.
    this.#lookBusyAt = monotonicMs() + partsAmongOthers * spentMs * 2 ** Math.min(this.#roomNotMade, 6);
    return true;
  }

  /** Take nothing until nothing runs. False if that takes too long: somebody else may have the time. */
  async #emptied(stopping: AbortSignal): Promise<boolean> {
    const { slots } = this.#options;
    const until = monotonicMs() + makeRoomMs;
    this.#makingRoom = true;
    try {
      while (slots.busy > 0 && monotonicMs() < until && !stopping.aborted)
        await this.#wake.wait(1_000, stopping);
    } finally {
      this.#makingRoom = false;
    }
    return slots.busy === 0 && !stopping.aborted;
  }
}
