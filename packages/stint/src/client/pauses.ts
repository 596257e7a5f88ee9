import type { Db } from "../db/db.ts";
import { InvalidOptionError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { requireDate } from "../model/options.ts";
import { resolvePauseTarget, type Pause, type PauseTarget } from "../model/pause.ts";
import { pause, pauseAudit, pauses, resume, type PauseAuditEntry } from "../sql/pauses.ts";
import { auditOf } from "./audit-of.ts";
import type { ActOptions } from "./jobs.ts";
import { withRetry } from "./retry.ts";
import type { Waker } from "./waker.ts";

export type PauseOptions = ActOptions & {
  /** Why, for the people who read the audit later. */
  reason: string;
  /** How long. Default: until it is resumed. */
  for?: Duration;
  /** When it ends by itself, instead of `for`. */
  until?: Date;
};

export type ResumeOptions = ActOptions & { reason: string };

/** Pauses and resumes queues, kinds, tenants and keys. `stint.pauses` is one. */
export class PausesClient {
  readonly #actor: string;
  readonly #waker: Pick<Waker, "wake">;
  readonly #run: <T>(work: (db: Db) => Promise<T>) => Promise<T>;

  constructor(
    db: Db,
    actor: string,
    waker: Pick<Waker, "wake">,
    whileOpen: <T>(work: () => Promise<T>) => Promise<T>,
  ) {
    this.#actor = actor;
    this.#waker = waker;
    // A change carries the id of its audit entry: sent again after a lost result, it changes nothing.
    this.#run = async (work) => await whileOpen(async () => await withRetry(db, work));
  }

  /** What is paused, at most 1,000 pauses. */
  async list(): Promise<Pause[]> {
    return await this.#run(pauses);
  }

  /** The newest 100 changes of one pause, newest first. */
  async audit(target: PauseTarget): Promise<PauseAuditEntry[]> {
    const id = resolvePauseTarget("pauses.audit", target);
    return await this.#run(async (db) => await pauseAudit(db, id));
  }

  /**
   * Start no further job of a queue, a kind, a tenant or a key. Enqueueing continues, running jobs finish, and jobs that were claimed
   * ahead go back. Pausing again replaces the time and the reason.
   *
   * @throws {InvalidOptionError} The target or an option cannot work, or no reason is given.
   */
  async pause(target: PauseTarget, options: PauseOptions): Promise<void> {
    const what = "pauses.pause";
    const id = resolvePauseTarget(what, target);
    const audit = auditOf(what, options, this.#actor, ["for", "until"]);
    const until = resolveUntil(what, options);
    await this.#run(async (db) => await pause(db, id, until, audit));
    this.#wakeWorkers();
  }

  /**
   * Let the jobs start again. Returns false if nothing was paused.
   *
   * @throws {InvalidOptionError} The target cannot work, or no reason is given.
   */
  async resume(target: PauseTarget, options: ResumeOptions): Promise<boolean> {
    const id = resolvePauseTarget("pauses.resume", target);
    const audit = auditOf("pauses.resume", options, this.#actor);
    const resumed = await this.#run(async (db) => await resume(db, id, audit));
    this.#wakeWorkers();
    return resumed;
  }

  /** Workers of this process must read the pauses. The statement has notified the others. */
  #wakeWorkers(): void {
    this.#waker.wake(["paused"], false);
  }
}

/** When the pause ends; null: when it is resumed. */
function resolveUntil(what: string, { for: length, until }: PauseOptions): Date | number | null {
  if (length !== undefined && until !== undefined)
    throw new InvalidOptionError(what, "give for or until, not both");
  if (length !== undefined) return toMs(length, `${what}.for`, { min: 1 });
  if (until === undefined) return null;
  // The database's clock decides; this finds mistakes of years and units.
  if (requireDate(`${what}.until`, until).getTime() <= Date.now())
    throw new InvalidOptionError(`${what}.until`, `must be a later time, got ${until.toISOString()}`);
  return until;
}
