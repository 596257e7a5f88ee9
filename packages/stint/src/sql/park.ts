import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { liftableReasons, type ParkReason } from "../model/park-reasons.ts";
import { logWith, type Ending } from "./attempt-log.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { afterFollowUps, firstTrace, followed, planned, tallied, unleased } from "./transitions.ts";

// Parking holds a job back with a reason. Lifting is the reverse, by a person (`run-now`) or at its time (`promote`).

/** What a job loses when its park is lifted. */
export const unparked = `park_reason = null, park_until = null, reason = null`;

/** Whether `runNow` may lift the live job `j`, if it is parked. */
export const mayLift = `(j.state <> 'parked' or j.park_reason in (${liftableReasons.map((reason) => `'${reason}'`).join(", ")}))`;

/** The sleeps of the jobs in `moved` that a person has made ready end now: the handler would sleep on otherwise. */
export const awoken = (moved: string): string => `update stint.step w
    set until = clock_timestamp()
    from ${moved}
    where w.job_id = ${moved}.id and w.type = 'sleep' and w.is_pending and w.until > clock_timestamp()`;

export type Park = {
  fence: Fence;
  reason: ParkReason;
  /** In the caller's own words. */
  note: string | null;
  /** When a worker lifts it: a time, or milliseconds from now. Null: at no time. */
  until: Date | number | null;
  ending: Ending;
  /** The `traceparent` of this attempt, kept as that of the first one. */
  first?: string;
  /** JSON text: the children that the job spawned and waits for, as `stint.run_plan` takes them. */
  plan?: string;
};

const parkJobs = statement(
  "park",
  `
  with mine as (
    select
      m.*,
      coalesce(m.until_at, clock_timestamp() + m.until_ms * interval '1 millisecond') as until
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[]),
        (select $6::timestamptz[]), (select $7::bigint[]), (select $8::text[]), (select $9::text[]),
        (select $10::text[])
      ) as m (id, epoch, lease_id, park_reason, note, until_at, until_ms, ending, first, plan)
  ), back as (
    update stint.job j
    set state = 'parked',
        park_reason = m.park_reason,
        park_until = m.until,
        reason = m.note,
        run_at = coalesce(m.until, clock_timestamp()),
        attempts = j.attempts - 1,
        interruptions = j.interruptions + 1,
        ${unleased},
        ${firstTrace}
        log = ${logWith("j", "m.ending::jsonb")}
    from mine m
    where ${fenced}
      and not j.cancel_requested
    returning ${planned},
      j.id, j.epoch, m.lease_id, j.queue, j.kind, j.priority, j.state, j.has_follow_ups
  ), tallied as (
    ${tallied("back", { was: ["running"], becomes: ["parked"] })}
  ), ${followed("back", ["plan"])}
  select id, epoch, lease_id from back where ${afterFollowUps}`,
);

/**
 * Park running jobs. No attempt is spent. Each is parked only if its fence still holds and no cancel was requested. Returns the fences of the
 * jobs that are parked now.
 */
export async function park(db: Run, jobs: readonly Park[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(parkJobs, [
    ...fenceValues(fences),
    jobs.map((job) => job.reason),
    jobs.map((job) => job.note),
    jobs.map(({ until }) => (until instanceof Date ? until.toISOString() : null)),
    jobs.map(({ until }) => (typeof until === "number" ? Math.ceil(until) : null)),
    jobs.map((job) => JSON.stringify(job.ending)),
    jobs.map((job) => job.first ?? null),
    jobs.map((job) => job.plan ?? null),
  ]);
  return fencesIn(rows, fences);
}
