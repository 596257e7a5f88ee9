import type { Inspector, JobFilter, JobRow } from "../inspect/types.ts";
import type { Job } from "../model/job.ts";
import type { JobState } from "../model/state.ts";

/** Only jobs enqueued within this time are new; a rare kind is not looked for in all of the past, again and again. */
const newMs = 600_000;
/** How many of the newest jobs, and of those that run, are looked at each time. */
const most = 500;
/** Jobs that stopped running and are looked up one by one, each time. */
const mostLookedUp = 50;
/** Beyond this the oldest are forgotten. */
const mostKept = 10_000;

export type TailOptions = {
  readonly filter: JobFilter;
  /** Only changes to these states are reported; all, if left out. */
  readonly states?: readonly JobState[];
  readonly get: (id: string) => Promise<Job | undefined>;
};

/** A job that is new, or is in another state than when it was last seen. */
export type Change = Pick<
  JobRow,
  "id" | "kind" | "queue" | "state" | "key" | "reason" | "worker" | "attempts"
> &
  Partial<JobRow>;

/**
 * Follows jobs by looking again and again: at the newest, at those that run, and at those that ran a moment ago. Each look
 * costs the same however many jobs there are; in return, an old job that begins and ends between two looks is not seen.
 */
export class Tail {
  readonly #inspector: Pick<Inspector, "jobs">;
  readonly #options: TailOptions;
  readonly #seen = new Map<string, JobState>();
  #running = new Set<string>();
  #begun = false;

  constructor(inspector: Pick<Inspector, "jobs">, options: TailOptions) {
    this.#inspector = inspector;
    this.#options = options;
  }

  /** What changed since the last look, oldest first. The first look reports nothing of what was there. */
  async look(): Promise<Change[]> {
    const { filter, states } = this.#options;
    const [newest, running] = await Promise.all([
      this.#inspector.jobs({ ...filter, since: new Date(Date.now() - newMs), limit: most }),
      this.#inspector.jobs({ ...filter, state: "running", limit: most }),
    ]);
    const rows = new Map<string, Change>();
    for (const row of [...running.jobs, ...newest.jobs]) rows.set(row.id, row);
    // One that ran and does not any more may be older than the newest.
    const left = [...this.#running].filter((id) => !rows.has(id)).slice(0, mostLookedUp);
    for (const job of await Promise.all(left.map((id) => this.#options.get(id)))) {
      if (job !== undefined) rows.set(job.id, job);
    }
    this.#running = new Set(running.jobs.map((job) => job.id));

    const changed = [...rows.values()].filter((row) => this.#seen.get(row.id) !== row.state);
    for (const row of rows.values()) this.#remember(row);
    if (!this.#begun) {
      this.#begun = true;
      return [];
    }
    return changed
      .filter((row) => states === undefined || states.includes(row.state))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  #remember({ id, state }: Change): void {
    this.#seen.delete(id);
    this.#seen.set(id, state);
    if (this.#seen.size > mostKept) {
      const [oldest] = this.#seen.keys();
      if (oldest !== undefined) this.#seen.delete(oldest);
    }
  }
}
