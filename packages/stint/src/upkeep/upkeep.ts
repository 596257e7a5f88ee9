import type { Db } from "../db/db.ts";
import { isUnavailable } from "../db/transient.ts";
import type { Logger } from "../runtime/logger.ts";
import type { IdleCheck, IdleCheckInput } from "../sql/idle-check.ts";
import type { Rescued } from "../sql/rescue.ts";
import { idleCheckService } from "./idle-check.ts";
import { presenceService, type Presence } from "./presence.ts";
import { promoteService } from "./promote.ts";
import { pruneService } from "./prune.ts";
import { rescueService, type Rescue } from "./rescue.ts";
import type { Service } from "./service.ts";
import { talliesService, type Tallies, type TalliesOptions } from "./tallies.ts";

export type UpkeepOptions = {
  readonly logger: Logger;
  readonly presence: Presence;
  readonly tallies: Pick<TalliesOptions, "meter" | "vitals" | "onUsual">;
  /** The queues of this worker that have room. */
  readonly queues: () => readonly string[];
  /** Where the queues of its large pools are; undefined if it has none. */
  readonly search: (() => NonNullable<IdleCheckInput["search"]>) | undefined;
  readonly kinds: readonly string[];
  /** How long until the next glance, about. */
  readonly glanceMs: () => number;
  readonly rescueEveryMs: number;
  readonly maxCrashes: number;
  readonly keepDoneMs: number;
  readonly keepDeadMs: number;
  readonly onGlance: (seen: IdleCheck) => void | Promise<void>;
  /** The glance failed: whoever relies on it must look for himself. */
  readonly onBlind: () => void;
  readonly onPromoted: (queues: readonly string[]) => void;
  readonly onRescued: (jobs: readonly Rescued[]) => void;
};

/** Workers that see the same lease run out should not all reach for it at once. */
const spreadMs = 200;

/** What a worker does for all, besides running jobs. A glance every few seconds says which of it is to be done. */
export class Upkeep {
  readonly #promote: Service;
  readonly #rescue: Rescue;
  readonly #presence: Service;
  readonly #tallies: Tallies;
  readonly #glance: Service;
  readonly #services: readonly Service[];

  constructor(db: Db, options: UpkeepOptions) {
    const { logger, presence, queues, kinds, glanceMs, rescueEveryMs, maxCrashes, keepDoneMs, keepDeadMs } =
      options;
    this.#promote = promoteService(db, { logger, onPromoted: options.onPromoted });
    this.#rescue = rescueService(db, {
      logger,
      restMs: rescueEveryMs,
      maxCrashes,
      onRescued: options.onRescued,
    });
    this.#presence = presenceService(db, { logger, ...presence });
    this.#tallies = talliesService(db, { logger, worker: presence.worker.id, kinds, ...options.tallies });
    this.#glance = idleCheckService(db, {
      logger,
      queues,
      search: options.search,
      kinds,
      everyMs: glanceMs,
      onGlance: async (seen) => {
        this.#see(seen);
        await options.onGlance(seen);
      },
      onTrouble: (error) => {
        // Only where nobody could reach it: leases run out meanwhile although their holders live.
        if (isUnavailable(error)) this.#rescue.troubled();
        this.#promote.wakeIn(0);
        options.onBlind();
      },
    });
    const prune = pruneService(db, { logger, keepDoneMs, keepDeadMs });
    this.#services = [
      this.#promote,
      this.#rescue.service,
      this.#presence,
      this.#tallies.service,
      this.#glance,
      prune,
    ];
  }

  start(): void {
    for (const service of this.#services) service.start();
  }

  /** Send nothing until `resume`. */
  pause(): void {
    for (const service of this.#services) service.pause();
  }

  resume(): void {
    for (const service of this.#services) service.resume();
  }

  /** How long the loop that looks around is late. It goes on without a database: only a process in trouble is late for long. */
  get overdueMs(): number {
    return this.#glance.overdueMs;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.stop()));
  }

  /** Whether nothing is left to be done that was seen: what ran out before the last glance is not seen again. */
  get isDone(): boolean {
    return this.#rescue.hasLooked() && this.#tallies.isDone();
  }

  /** Tell what was counted now: this worker is about to fall silent. */
  finish(): void {
    if (!this.#tallies.isDone()) this.#tallies.service.wakeIn(0);
  }

  /** Tell what was counted, after the end. */
  async tellLast(): Promise<void> {
    await this.#tallies.flush();
  }

  /** A job is due in so many milliseconds. */
  promoteIn(ms: number): void {
    this.#promote.wakeIn(ms);
  }

  /** Say how this worker is in so many milliseconds, rather than at the next beat. */
  beatIn(ms: number): void {
    this.#presence.wakeIn(ms);
  }

  #see({ at, dueInMs, expiresInMs, unfolded }: IdleCheck): void {
    if (unfolded) this.#tallies.toFold();
    this.#rescue.seenBy(at);
    if (dueInMs !== null) this.#promote.wakeIn(Math.max(dueInMs, 0));
    if (expiresInMs !== null)
      this.#rescue.service.wakeIn(Math.max(expiresInMs, 0) + spreadMs * Math.random());
  }
}
