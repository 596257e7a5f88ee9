import type { ClaimedJob } from "../model/job.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { settledWithin } from "../runtime/sleep.ts";
import type { Claimer } from "./claimer.ts";
import type { ClaimScope } from "./claim-scope.ts";
import type { Pools } from "./pools.ts";
import type { Releaser } from "./releaser.ts";

export type CrashQuarantineOptions = {
  readonly pools: Pick<Pools, "busy" | "isCrashSuspect" | "releaseWaiting">;
  readonly scope: Pick<ClaimScope, "isEmpty">;
  readonly claimer: Pick<Claimer, "quarantined" | "quarantinedWaits">;
  readonly releaser: Pick<Releaser, "release">;
  /** Run this job in a slot of its own. Resolves when its outcome is recorded. */
  readonly runAlone: (job: ClaimedJob, sentAt: number) => Promise<unknown>;
  /** Whether some handler keeps running although its signal has aborted. */
  readonly hasStuck: () => boolean;
  /** Wait until the claim loop is woken, at most for so long. */
  readonly waitForWake: (ms: number, stopping: AbortSignal) => Promise<unknown>;
  /** Claims may continue in this queue. */
  readonly onRoom: (queue: string) => void;
};

/** How long a job stays in quarantine before a busy worker makes room for it, and how long making room may take. */
const patienceMs = 30_000;
const makeRoomMs = 30_000;
/** How often a busy worker looks into the quarantine, and an idle one without a hint. */
const lookBusyMs = 5_000;
const lookIdleMs = 60_000;
/** A busy worker spends one part of its time alone with quarantined jobs for so many parts among the others. */
const partsAmongOthers = 9;

/**
 * When a worker dies, every job it had counts a crash; one of them may be the cause. A job that counted two is quarantined, and
 * runs alone: if the worker dies again, no other job is harmed or blamed.
 *
 * A quarantined job is claimed only once nothing else runs here: a crash before its start would be blamed on it. An idle worker
 * looks at once. A busy one makes room only for a job that has been in quarantine for long.
 */
export class CrashQuarantine {
  readonly #options: CrashQuarantineOptions;
  #makingRoom = false;
  #investigating = false;
  #suspectsLeaving = 0;
  #lookIdleAt = 0;
  #lookBusyAt = 0;
  #restUntil = 0;
  #roomNotMade = 0;
  #spentAlone = 0;

  constructor(options: CrashQuarantineOptions) {
    this.#options = options;
  }

  /** Whether a quarantined job runs here, or this worker makes room for one. Nothing else is claimed meanwhile. */
  get isInvestigating(): boolean {
    return this.#investigating;
  }

  /** Whether the end of any attempt must wake the claim loop. */
  get isMakingRoom(): boolean {
    return this.#makingRoom;
  }

  /** Whether crash suspects are being released. Until they are, a claim would return them again. */
  get isReleasing(): boolean {
    return this.#suspectsLeaving > 0;
  }

  /** A job has just been quarantined: look at once. */
  hint(): void {
    this.#lookIdleAt = 0;
  }

  /** The idle check saw a quarantined job: look as soon as the rest from the last one is over. */
  seen(): void {
    this.#lookIdleAt = Math.min(this.#lookIdleAt, this.#restUntil);
  }

  /** A claim sent then returned other jobs: a worker that is idle between jobs must not spend that time on quarantine alone. */
  otherWorkFound(sentAt: number): void {
    if (this.#spentAlone > 0)
      this.#restUntil = this.#lookIdleAt = sentAt + partsAmongOthers * this.#spentAlone;
    this.#spentAlone = 0;
  }

  /**
   * Release the crash suspects among the waiting jobs. They wait for a slot beside jobs that may crash this worker, and for each
   * of them one more crash is one too many. They are claimed again when there is a slot for each.
   */
  releaseSuspects(): void {
    const { pools, releaser, onRoom } = this.#options;
    const suspects = pools.releaseWaiting(pools.isCrashSuspect);
    const [first] = suspects;
    if (first === undefined) return;
    this.#suspectsLeaving += 1;
    void releaser.release(suspects).then(() => {
      this.#suspectsLeaving -= 1;
      onRoom(first.queue);
    });
  }

  /** Run one quarantined job, if there is one and it is time. True if there may be something to claim afterwards. */
  async investigate(stopping: AbortSignal): Promise<boolean> {
    const { pools, scope } = this.#options;
    const idle = pools.busy === 0;
    if (scope.isEmpty || monotonicMs() < (idle ? this.#lookIdleAt : this.#lookBusyAt)) return false;
    try {
      return idle ? await this.#runAlone(stopping) : await this.#makeRoomAndRunAlone(stopping);
    } finally {
      this.#investigating = false;
    }
  }

  async #runAlone(stopping: AbortSignal): Promise<boolean> {
    const { claimer, runAlone } = this.#options;
    const sentAt = monotonicMs();
    const job = await claimer.quarantined(stopping);
    if (job === undefined) {
      this.#lookIdleAt = sentAt + lookIdleMs;
      return false;
    }
    this.#investigating = true;
    // No time limit: the attempt's own timeout ends this wait.
    await settledWithin(Infinity, runAlone(job, sentAt), stopping);
    this.#lookIdleAt = 0;
    this.#spentAlone = monotonicMs() - sentAt;
    return true;
  }

  async #makeRoomAndRunAlone(stopping: AbortSignal): Promise<boolean> {
    const { claimer, hasStuck } = this.#options;
    const startedAt = monotonicMs();
    this.#lookBusyAt = startedAt + lookBusyMs;
    // A handler that ignores its signal would never make room.
    if (hasStuck() || !(await claimer.quarantinedWaits(patienceMs))) return false;
    this.#investigating = true;
    const hasRoom = await this.#makeRoom(stopping);
    this.#roomNotMade = hasRoom ? 0 : this.#roomNotMade + 1;
    if (hasRoom) await this.#runAlone(stopping);
    const spentMs = monotonicMs() - startedAt;
    // Twice as long after each failure to make room: where jobs are long, another worker has the better chance.
    this.#lookBusyAt = monotonicMs() + partsAmongOthers * spentMs * 2 ** Math.min(this.#roomNotMade, 6);
    return true;
  }

  /** Claim nothing until nothing runs. False if that takes too long. */
  async #makeRoom(stopping: AbortSignal): Promise<boolean> {
    const { pools, waitForWake } = this.#options;
    const until = monotonicMs() + makeRoomMs;
    this.#makingRoom = true;
    try {
      while (pools.busy > 0 && monotonicMs() < until && !stopping.aborted) await waitForWake(1_000, stopping);
    } finally {
      this.#makingRoom = false;
    }
    return pools.busy === 0 && !stopping.aborted;
  }
}
