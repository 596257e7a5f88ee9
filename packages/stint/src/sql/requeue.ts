import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { logWith, type Ending } from "./attempt-log.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { park, type Park } from "./park.ts";
import { suspend, type Suspend } from "./suspend.ts";
import { afterFollowUps, firstTrace, followed, tallied, unleased } from "./transitions.ts";

export type Requeue = {
  fence: Fence;
  state: "retrying" | "scheduled" | "ready" | "parked";
  /** Wait before the job is due again; null keeps its place in the queue. */
  delayMs: number | null;
  /**
   * The counter of the job that grows by one. Only `attempt` is spent. An `interruption` (snoozed, or released by a stopping worker)
   * and a `fault` (the database failed the transaction that the handler was given) return the attempt, and so does a `crash` (the thread or
   * process of the handler ended).
   */
  countsAs: "attempt" | "interruption" | "fault" | "crash";
  /** With the state `parked`: why, and until when. */
  park?: Pick<Park, "reason" | "note" | "until" | "plan">;
  /** Its handler sleeps or waits for a signal. */
  suspend?: Omit<Suspend, "fence" | "first">;
  ending: Ending;
  /** The `traceparent` of this attempt, for the job to carry as that of its first one. Only where it was traced. */
  first?: string;
};

/** With `first`, jobs that have one keep it in their `meta`. */
const requeuing = (first: "" | ", first"): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::bigint[]),
        (select $6::text[]), (select $7::text[])${first === "" ? "" : ", (select $8::text[])"}
      ) as m (id, epoch, lease_id, state, delay_ms, counts_as, ending${first})
  ), back as (
    update stint.job j
    set state = case
          -- A quarantined job that was released before its attempt alone ended stays quarantined.
          when m.delay_ms is null and j.park_reason = 'quarantine' then 'parked'
          when coalesce(m.delay_ms, 0) <= 0 then 'ready'
          else m.state
        end::stint.job_state,
        run_at = case when m.delay_ms is null then j.run_at else clock_timestamp() + m.delay_ms * interval '1 millisecond' end,
        attempts = j.attempts - case when m.counts_as = 'attempt' then 0 else 1 end,
        interruptions = j.interruptions + case when m.counts_as = 'interruption' then 1 else 0 end,
        faults = j.faults + case when m.counts_as = 'fault' then 1 else 0 end,
        crashes = j.crashes + case when m.counts_as = 'crash' then 1 else 0 end,
        ${unleased},
        park_reason = case when m.delay_ms is null then j.park_reason end,
        reason = null,${first === "" ? "" : `\n        ${firstTrace}`}
        log = ${logWith("j", "m.ending::jsonb")}
    from mine m
    where ${fenced}
      and not j.cancel_requested
    returning j.id, j.epoch, m.lease_id, j.queue, j.kind, j.priority, j.state, j.has_follow_ups
  ), tallied as (
    ${tallied("back", { was: ["running"], becomes: ["ready", "scheduled", "retrying", "parked"] })}
  ), ${followed("back")}
  select id, epoch, lease_id from back where ${afterFollowUps}`;

const requeueJobs = statement("requeue", requeuing(""));
const requeueTraced = statement("requeue-traced", requeuing(", first"));

/**
 * Return jobs whose attempt ended to the live jobs, to run again. Each goes back only if its fence still holds and no cancel was
 * requested. Returns the fences of the jobs that went back.
 */
export async function requeue(db: Run, jobs: readonly Requeue[]): Promise<Set<Fence>> {
  const traced = ({ first }: Requeue): { first?: string } => (first === undefined ? {} : { first });
  const parked = jobs.flatMap((job) =>
    job.park === undefined ? [] : [{ ...job.park, fence: job.fence, ending: job.ending, ...traced(job) }],
  );
  const suspended = jobs.flatMap((job) =>
    job.suspend === undefined ? [] : [{ ...job.suspend, fence: job.fence, ...traced(job) }],
  );
  if (parked.length + suspended.length === 0) return await sendBack(db, jobs);
  const others = jobs.filter((job) => job.park === undefined && job.suspend === undefined);
  const back = others.length === 0 ? [] : await sendBack(db, others);
  const held = parked.length === 0 ? [] : await park(db, parked);
  return new Set([...back, ...held, ...(suspended.length === 0 ? [] : await suspend(db, suspended))]);
}

async function sendBack(db: Run, jobs: readonly Requeue[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const values = [
    ...fenceValues(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => (job.delayMs === null ? null : Math.ceil(job.delayMs))),
    jobs.map((job) => job.countsAs),
    jobs.map((job) => JSON.stringify(job.ending)),
  ];
  const isTraced = jobs.some(({ first }) => first !== undefined);
  const rows = isTraced
    ? await db.run(requeueTraced, [...values, jobs.map(({ first }) => first ?? null)])
    : await db.run(requeueJobs, values);
  return fencesIn(rows, fences);
}
