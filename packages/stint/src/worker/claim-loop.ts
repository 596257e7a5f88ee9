import { AsyncResource } from "node:async_hooks";
import type { ClaimedJob } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { jitter, pauseAfter, sleep, Wakeable } from "../runtime/sleep.ts";
import type { PoolTake, Take } from "../sql/claim.ts";
import { AgedClaims } from "./aged-claims.ts";
import type { Claimer } from "./claimer.ts";
import type { ClaimOrder } from "./claim-order.ts";
import type { ClaimScope } from "./claim-scope.ts";
import type { CrashQuarantine } from "./crash-quarantine.ts";
import { FairClaims } from "./fair-claims.ts";
import { Floors } from "./floors.ts";
import type { Pools } from "./pools.ts";

export type LoopOptions = {
  readonly pools: Pools;
  readonly scope: ClaimScope;
  readonly claimer: Pick<Claimer, "ready" | "readyQueues" | "fair" | "aged" | "urgent">;
  readonly order: ClaimOrder;
  readonly quarantine: CrashQuarantine;
  readonly logger: Logger;
  /** How long to wait for a wake before the first poll. */
  readonly pollMs: () => number;
  /**
   * Keep the leases of these jobs and start their attempts as slots are free. `sentAt` is from before the claim. Resolves when jobs under a limit have
   * their places: until then their slots count as free.
   */
  readonly onClaimed: (jobs: readonly ClaimedJob[], sentAt: number) => Promise<void> | undefined;
  /** Whether enqueuers send wakes. */
  readonly listens: () => boolean;
  /** Called before the loop waits, unless they do: make enqueuers send wakes. True if they sent none before, so one may have been missed. */
  readonly listen: () => Promise<boolean>;
};

/** The first wait after there was work. Each following one is twice as long; after the last, only idle checks look for work. */
const shortestWaitMs = 250;
const maxWaits = 5;

/** The claim loop of a worker: claims into free slots, for all queues at once, until it is stopped. */
export class ClaimLoop {
  readonly #options: LoopOptions;
  readonly #wake = new Wakeable();
  readonly #retryDelay = new RetryDelay();
  readonly #floors: Floors;
  readonly #fair: FairClaims;
  readonly #aged: AgedClaims;
  #waits = 0;
  #pauseUntil = 0;
  #lastClaimAt = 0;
  #turnedAt: number | undefined;
  /** Whether the last claim found nothing. */
  #foundNothing = false;
  /** Whether the wake that is given now continues the loop before it returns. */
  #isUrgent = false;

  constructor(options: LoopOptions) {
    this.#options = options;
    const { order, claimer, scope, pools } = options;
    // A fair queue has no floors, so no sweep is owed to it. While only reserved slots are free, a sweep has no room.
    this.#floors = new Floors(
      (queue) =>
        scope.excludes(queue) ||
        order.weightsOf(queue) !== undefined ||
        pools.find(queue)?.isReserveLeft === true,
    );
    this.#fair = new FairClaims({
      order,
      claimer,
      now: monotonicMs,
      onClaimed: async (take, jobs, sentAt) => await this.#orderedClaimed(take, jobs, sentAt),
    });
    this.#aged = new AgedClaims({
      order,
      claimer,
      now: monotonicMs,
      onClaimed: async (take, jobs, sentAt) => await this.#orderedClaimed(take, jobs, sentAt),
    });
  }

  /**
   * Monotonic time of the last claim that returned; now, while no claim is due because slots are full or a quarantined job runs.
   * 0 before the first claim. A health check reads it.
   */
  get lastClaimAt(): number {
    return this.#options.quarantine.isInvestigating ? monotonicMs() : this.#lastClaimAt;
  }

  /** How long the current turn, a claim and what belongs to it, has taken; 0 while the loop waits or a quarantined job runs. */
  get turnMs(): number {
    const { quarantine } = this.#options;
    return this.#turnedAt === undefined || quarantine.isInvestigating ? 0 : monotonicMs() - this.#turnedAt;
  }

  /** Whether the loop sends nothing until it gets a hint. */
  get quiet(): boolean {
    return this.#waits > maxWaits && this.#floors.owedInMs(0) === undefined;
  }

  /** This queue may have ready jobs; without a queue, each of them may. */
  hint(queue?: string): void {
    if (this.#options.pools.mayHaveWork(queue)) this.wake();
  }

  /**
   * The same for a wake that has just arrived. If the loop rests, its claim is sent before this returns, and not after everything else that the
   * event loop does with the response in which the wake came: the job starts 50 µs earlier.
   */
  claimAtOnce(queue: string): void {
    this.#isUrgent = true;
    this.hint(queue);
    this.#isUrgent = false;
  }

  /** Whether a ready job of this queue could be claimed now. */
  mayClaim(queue: string): boolean {
    const { pools, scope, quarantine } = this.#options;
    return !scope.isEmpty && !quarantine.isInvestigating && (pools.find(queue)?.room ?? 0) > 0;
  }

  /** Look again whether there is something to do. */
  wake(): void {
    this.#wake.wake();
  }

  /** Wait until the loop is woken, at most for so long. */
  async waitForWake(ms: number, stopping: AbortSignal): Promise<void> {
    await this.#wake.wait(ms, stopping);
  }

  /** A slot of this queue is free, or an outcome was recorded: there may be room for a claim. */
  roomMade(queue: string): void {
    const { pools, scope, quarantine } = this.#options;
    const at = monotonicMs();
    const isRoom =
      quarantine.isMakingRoom || pools.wants(queue, at) || pools.hasShareRoom(at) || pools.busy === 0;
    if (isRoom && !scope.isEmpty) this.wake();
  }

  /** Claims until `stopping`, then resolves once nothing more will be claimed. Survives any outage. */
  run(stopping: AbortSignal): Promise<void> {
    // Once, and not for each rest: that costs more than the rest itself.
    stopping.addEventListener("abort", () => this.wake(), { once: true });
    return new Promise((resolve, reject) => {
      // A wake may be given within a request of the application. Its handlers must not run in the async context of that request.
      const turn = AsyncResource.bind((): void => {
        void this.#turns(stopping, turn).then((isResting) => isResting || resolve(), reject);
      });
      turn();
    });
  }

  /** Claims until nothing can be claimed for now, and `turn` continues later: true. False: the worker is stopping. */
  async #turns(stopping: AbortSignal, turn: () => void): Promise<boolean> {
    const { pools, quarantine, logger, listens, listen } = this.#options;
    while (!stopping.aborted) {
      this.#turnedAt = monotonicMs();
      try {
        const restMs = this.#pauseUntil - monotonicMs();
        if (restMs > 0) await sleep(restMs, stopping);
        if ((await this.#fill(stopping)) || (await quarantine.investigate(stopping))) continue;
        if (!pools.saturated && !listens() && (await listen())) {
          pools.mayHaveWork();
          this.#waits = 0;
          continue;
        }
        this.#retryDelay.reset();
        if (this.#continueLater(turn)) return true;
      } catch (error) {
        logger.warn({ err: error }, "could not claim; trying again");
        await sleep(this.#retryDelay.next(), stopping);
        pools.mayHaveWork();
      }
    }
    return false;
  }

  /** Call `turn` after a wake, the next poll or the next sweep, whichever is first. False: there was a wake already. */
  #continueLater(turn: () => void): boolean {
    const { pools, pollMs } = this.#options;
    // An enqueuer that saw no listening worker sends no wake, and its transaction may commit later: poll soon, then less often.
    const restMs =
      this.#waits < maxWaits ? jitter(Math.min(pollMs(), shortestWaitMs * 2 ** this.#waits)) : Infinity;
    this.#waits += 1;
    this.#turnedAt = undefined;
    const sweepMs = this.#sweepInMs();
    return this.#wake.whenWoken(Math.min(restMs, sweepMs), (woken) => {
      if (!woken && restMs <= sweepMs) pools.mayHaveWork();
      else if (!woken) for (const queue of this.#floors.owed(monotonicMs())) pools.mayHaveWork(queue);
      // Most wakes come from the middle of something else that changes what may be claimed.
      if (this.#isUrgent) turn();
      else queueMicrotask(turn);
    });
  }

  /** How long until the next sweep: only a sweep finds jobs behind the floors. Infinity without room for what it would find. */
  #sweepInMs(): number {
    const { pools, scope } = this.#options;
    if (pools.saturated || scope.isEmpty) return Infinity;
    const at = monotonicMs();
    return Math.min(this.#floors.owedInMs(at) ?? Infinity, pools.searchInMs(at));
  }

  /** One claim for every pool with room. True if there may be more to claim. */
  async #fill(stopping: AbortSignal): Promise<boolean> {
    const { pools } = this.#options;
    if (this.#isSearchDue()) await this.#search();
    const takes = this.#takes();
    if (takes.length === 0) {
      if (pools.saturated) this.#lastClaimAt = monotonicMs();
      return this.#isSearchDue();
    }
    if (this.#options.order.isPlain && !takes.some(isUrgent)) await this.#claim(takes, stopping);
    else await this.#claimInOrder(takes, stopping);
    this.#retryDelay.reset();
    return this.#takes().length > 0 || this.#isSearchDue();
  }

  #isSearchDue(): boolean {
    const { pools, scope } = this.#options;
    return pools.search !== undefined && !scope.isEmpty && pools.searchInMs(monotonicMs()) === 0;
  }

  /** Find queues with ready jobs, for pools with more queues than a claim asks. */
  async #search(): Promise<void> {
    const { pools, claimer } = this.#options;
    const { search } = pools;
    if (search === undefined) return;
    const sentAt = monotonicMs();
    const found = await claimer.readyQueues(search.start());
    search.done(found, { sentAt, at: monotonicMs() });
    this.#lastClaimAt = sentAt;
    for (const queue of found.queues) pools.mayHaveWork(queue);
  }

  #takes(): Take[] {
    const { pools, scope } = this.#options;
    return scope.isEmpty ? [] : pools.takes(monotonicMs());
  }

  /**
   * Fair queues have claims of their own, each of which takes at most the share of its queue. Old jobs of queues with aging come next. The other
   * jobs share the room that is left.
   */
  async #claimInOrder(takes: readonly Take[], stopping: AbortSignal): Promise<void> {
    const urgent = takes.filter(isUrgent);
    if (urgent.length > 0) await this.#claimUrgent(urgent, stopping);
    let claimed = urgent.length > 0;
    const taken = new Map<PoolTake | undefined, number>();
    for (const take of takes) {
      if (isUrgent(take)) continue;
      const { pool } = take;
      // Each of these claims is a statement of its own: together they must not take more than their pool has room for.
      const limit = Math.min(take.limit, (pool?.limit ?? Infinity) - (taken.get(pool) ?? 0));
      if (limit <= 0) continue;
      const claims = this.#fair.isFair(take) ? this.#fair : this.#aged;
      const got = await claims.claim({ ...take, limit }, stopping);
      if (got === undefined) continue;
      claimed = true;
      taken.set(pool, (taken.get(pool) ?? 0) + got);
    }
    const others = (claimed ? this.#takes() : takes).filter(
      (take) => !this.#fair.isFair(take) && !isUrgent(take),
    );
    if (others.length > 0) await this.#claim(others, stopping);
  }

  /** Only the reserved slots of these pools are free. */
  async #claimUrgent(takes: readonly Take[], stopping: AbortSignal): Promise<void> {
    const { pools, claimer } = this.#options;
    const sentAt = monotonicMs();
    const jobs = await claimer.urgent(takes, stopping);
    const at = monotonicMs();
    this.#lastClaimAt = sentAt;
    pools.claimed(takes, jobs, { sentAt, at });
    this.#rest(jobs.length === 0 && !pools.isUnasked, sentAt, at);
    await this.#started(jobs, sentAt);
  }

  /** A queue may have more until a claim that looks at all its jobs finds none. */
  async #orderedClaimed(take: Take, jobs: readonly ClaimedJob[], sentAt: number): Promise<void> {
    const { pools } = this.#options;
    const at = monotonicMs();
    this.#lastClaimAt = sentAt;
    pools.claimed([take], jobs, { sentAt, at });
    if (jobs.length > 0) pools.mayHaveWork(take.queue);
    this.#rest(jobs.length === 0 && !pools.isUnasked, sentAt, at);
    await this.#started(jobs, sentAt);
  }

  async #claim(takes: readonly Take[], stopping: AbortSignal): Promise<void> {
    const { pools, claimer } = this.#options;
    const sentAt = monotonicMs();
    const queues = takes.map((take) => take.queue);
    const floors = this.#floors.from(queues, sentAt);
    const jobs = await claimer.ready(takes, floors, stopping);
    const at = monotonicMs();
    this.#lastClaimAt = sentAt;
    // First: on an idle queue, what follows takes 40 µs.
    const started = this.#started(jobs, sentAt);
    const full = pools.claimed(takes, jobs, { sentAt, at });
    this.#rest(jobs.length === 0 && full.size === 0 && !pools.isUnasked, sentAt, at);
    if (floors !== undefined) this.#floors.measured(at - sentAt, jobs.length);
    this.#floors.claimed(queues, jobs, at, floors === undefined ? { sentAt, full } : undefined);
    if (!this.#options.order.isPlain) this.#aged.othersClaimed(jobs);
    await started;
  }

  /**
   * A wake reaches every worker, and one of them takes the job: without a rest, the others would claim nothing at every wake. After a claim that
   * found jobs the next may follow at once: the jobs that arrive during its round trip share it. A single claim that finds nothing has mostly lost its job
   * to the claim before it, so only the second one in a row rests.
   */
  #rest(foundNothing: boolean, sentAt: number, at: number): void {
    this.#pauseUntil = foundNothing && this.#foundNothing ? at + pauseAfter(at - sentAt) : 0;
    this.#foundNothing = foundNothing;
  }

  async #started(jobs: readonly ClaimedJob[], sentAt: number): Promise<void> {
    const { quarantine, onClaimed } = this.#options;
    if (jobs.length === 0) return;
    this.#waits = 0;
    quarantine.otherWorkFound(sentAt);
    const placing = onClaimed(jobs, sentAt);
    if (placing !== undefined) await placing;
  }
}

function isUrgent({ mostPriority }: Take): boolean {
  return mostPriority !== undefined;
}
