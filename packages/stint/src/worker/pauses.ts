import type { Db } from "../db/db.ts";
import type { ClaimedJob } from "../model/job.ts";
import { PauseSet, type PauseId } from "../model/pause.ts";
import type { Logger } from "../runtime/logger.ts";
import { holdPaused } from "../sql/pauses.ts";
import type { ClaimExclusion } from "./claim-scope.ts";
import type { Releaser } from "./releaser.ts";

export type WorkerPausesOptions = {
  readonly db: Db;
  readonly logger: Logger;
  readonly kinds: readonly string[];
  readonly usesOf: (kind: string) => readonly { readonly name: string }[];
  readonly releaser: Pick<Releaser, "release">;
  /** Hand over the jobs that wait for a slot and that this holds for. */
  readonly takeWaiting: (which: (job: ClaimedJob) => boolean) => ClaimedJob[];
  /** Release the jobs that wait for others of their batch and that this holds for. */
  readonly releaseGathering: (which: (job: ClaimedJob) => boolean) => void;
  /** Read the pauses now. */
  readonly read: () => void;
  /** Something may be claimed that was not before. */
  readonly onChanged: () => void;
};

/**
 * What is paused, as far as this worker knows. Paused queues and kinds are not claimed. A claimed job of a paused tenant or key is parked
 * before it begins. While the database cannot be read, the last known pauses stay in force.
 */
export class WorkerPauses {
  readonly #options: WorkerPausesOptions;
  #known = PauseSet.none;
  #kinds: ReadonlySet<string> = new Set();
  /** Something was paused or resumed, and the pauses have not been read since. Nothing is claimed meanwhile. */
  #isStale = false;

  constructor(options: WorkerPausesOptions) {
    this.#options = options;
  }

  /** What claims leave out. */
  get exclusion(): ClaimExclusion {
    return {
      everything: () => this.#isStale,
      kinds: () => this.#kinds,
      queues: () => this.#known.queues,
    };
  }

  /** Something was paused or resumed. */
  changed(): void {
    this.#isStale = true;
    this.#options.read();
  }

  /** These are the pauses in force. Claimed jobs that they hold and that have not begun go back. */
  learn(pauses: readonly PauseId[]): void {
    const { kinds, takeWaiting, releaseGathering, onChanged } = this.#options;
    const next = new PauseSet([...pauses, ...this.#kindsUsing(pauses)]);
    const hasChanged = !next.equals(this.#known);
    const wasStale = this.#isStale;
    this.#known = next;
    this.#kinds = next.kindsOf(kinds);
    this.#isStale = false;
    if (hasChanged && !next.isEmpty) {
      const holds = (job: ClaimedJob): boolean => next.holds(job);
      this.#release(takeWaiting(holds));
      releaseGathering(holds);
    }
    if (hasChanged || wasStale) onChanged();
  }

  /** A paused dependency pauses the kinds that use it. */
  #kindsUsing(pauses: readonly PauseId[]): PauseId[] {
    const { kinds, usesOf } = this.#options;
    const paused = new Set(pauses.flatMap(({ scope, name }) => (scope === "dependency" ? [name] : [])));
    if (paused.size === 0) return [];
    const using = kinds.filter((kind) => usesOf(kind).some(({ name }) => paused.has(name)));
    return using.map((name) => ({ scope: "kind", name }));
  }

  /** The jobs that may begin. Those that are paused go back, and so do all of a claim that was on its way when something was paused. */
  admit(jobs: readonly ClaimedJob[]): readonly ClaimedJob[] {
    if (this.#isStale) {
      void this.#options.releaser.release(jobs);
      return [];
    }
    if (this.#known.isEmpty) return jobs;
    const held = jobs.filter((job) => this.#known.holds(job));
    if (held.length === 0) return jobs;
    this.#release(held);
    return jobs.filter((job) => !held.includes(job));
  }

  /** Jobs of a paused tenant or key are parked: released, they would be claimed again and again. */
  #release(jobs: readonly ClaimedJob[]): void {
    if (jobs.length === 0) return;
    const { releaser } = this.#options;
    const parked = jobs.flatMap((job) => {
      const pause = this.#known.parks(job);
      return pause === undefined ? [] : [{ job, fence: job.fence, pause }];
    });
    const others = jobs.filter((job) => this.#known.parks(job) === undefined);
    void releaser.release(others);
    if (parked.length > 0) void this.#park(parked);
  }

  async #park(
    held: readonly { job: ClaimedJob; fence: ClaimedJob["fence"]; pause: PauseId }[],
  ): Promise<void> {
    const { db, logger, releaser } = this.#options;
    try {
      const parked = await holdPaused(db, held);
      await releaser.release(held.filter(({ fence }) => !parked.has(fence)).map(({ job }) => job));
    } catch (error) {
      logger.warn({ err: error }, "could not park jobs of a paused tenant or key; releasing them");
      await releaser.release(held.map(({ job }) => job));
    }
  }
}
