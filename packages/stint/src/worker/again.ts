import type { Db } from "../db/db.ts";
import { InvalidOptionError, LeaseLostError } from "../errors.ts";
import { toMs, type Duration } from "../model/duration.ts";
import type { ClaimedJob } from "../model/job.ts";
import { encodeJson } from "../model/json.ts";
import { limitKeys, type KindLimits } from "../model/limits.ts";
import { refuseUnknownKeys, requireDate } from "../model/options.ts";
import { planNextRun, type NextRun } from "../sql/next-run.ts";

/** When the next run of a self-rescheduling job is due, and what it is about. */
export type AgainOptions = (
  | {
      /** This much later, counted from the call by the database's clock. */
      in: Duration;
      at?: undefined;
    }
  | { in?: undefined; at: Date }
) & {
  /** The payload of the next run, which gives it its limit keys, too. Default: that of this one. */
  payload?: unknown;
};

const latest = Date.UTC(10_000, 0, 1) - 1;

/**
 * Plan the next run of a job, to be enqueued in the statement in which this one ends.
 *
 * @throws {InvalidOptionError} The time cannot work.
 * @throws {LeaseLostError} Another worker owns the job.
 */
export async function again(
  db: Db,
  job: ClaimedJob,
  options: AgainOptions,
  definition: KindLimits,
  maxPayloadBytes: number,
): Promise<void> {
  const next = resolve(job, options, definition, maxPayloadBytes);
  if (!(await planNextRun(db, job.fence, next))) throw new LeaseLostError(job.fence.job, job.fence.epoch);
}

function resolve(
  { kind }: ClaimedJob,
  options: AgainOptions,
  definition: KindLimits,
  maxBytes: number,
): NextRun {
  refuseUnknownKeys("again", options, ["in", "at", "payload"]);
  const { in: delay, at, payload } = options;
  if ((delay === undefined) === (at === undefined))
    throw new InvalidOptionError("again", 'takes in or at, one of them, as in again({ in: "24h" })');
  if (at !== undefined && (requireDate("again.at", at).getTime() < 0 || at.getTime() > latest))
    throw new InvalidOptionError("again.at", "must be from 1970 to 9999");
  return {
    delayMs: delay === undefined ? null : toMs(delay, "again.in"),
    at: at?.toISOString() ?? null,
    payload: payload === undefined ? null : encodeJson(payload, { kind, root: "payload", maxBytes }),
    limits: payload === undefined ? null : (limitKeys("again", definition, payload)?.limits ?? null),
  };
}
