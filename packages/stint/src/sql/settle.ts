import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Failure } from "../model/failure.ts";
import type { AttemptOutcome, Fence } from "../model/job.ts";

/** How an attempt ended, as the log keeps it. Times, worker and epoch are added by the database. */
export type Ending = { outcome: AttemptOutcome; error?: Failure };

export type Finish = {
  fence: Fence;
  state: "succeeded" | "dead" | "cancelled";
  /** JSON text. */
  result: string | null;
  reason: string | null;
  /** Left out for a success: the finished row itself says all of it. */
  ending: Ending | null;
};

export type PutBack = {
  fence: Fence;
  state: "retrying" | "scheduled" | "ready";
  /** From now on; null keeps the job's place in its queue. */
  delayMs: number | null;
  /** Whether the attempt counts. What was not the job's fault gives it back. */
  spent: boolean;
  ending: Ending;
};

const fenced = `j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id`;
const ended = `stint.append_attempt(j.log, jsonb_build_object(
      'epoch', j.epoch, 'worker', j.worker, 'startedAt', j.claimed_at, 'endedAt', clock_timestamp(), 'lease', j.lease_id
    ) || m.ending::jsonb)`;

const finishJobs = statement(
  "finish",
  `
  with mine as (
    select *
    from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[])
      as m (id, epoch, lease_id, state, result, reason, ending)
  ), gone as (
    delete from stint.job j
    using mine m
    where ${fenced}
    returning
      j.id, j.kind, j.queue, m.state, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, m.reason, j.meta, j.payload, m.result,
      case when m.ending is null then j.log else ${ended} end as log
  )
  insert into stint.history (
    id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, reason, meta, payload, result, log
  )
  select
    id, kind, queue, state::stint.job_state, priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, reason, meta, payload, result::jsonb, log
  from gone
  returning id`,
);

/** Move ended jobs into history, each only if its fence still holds. Answers the ids that did. */
export async function finish(db: Run, jobs: readonly Finish[]): Promise<Set<string>> {
  const rows = await db.run(finishJobs, [
    jobs.map((job) => job.fence.job),
    jobs.map((job) => job.fence.epoch),
    jobs.map((job) => job.fence.leaseId),
    jobs.map((job) => job.state),
    jobs.map((job) => job.result),
    jobs.map((job) => job.reason),
    jobs.map((job) => (job.ending === null ? null : JSON.stringify(job.ending))),
  ]);
  return new Set(rows.map((row) => row["id"] as string));
}

const putBackJobs = statement(
  "put-back",
  `
  with mine as (
    select *
    from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[], $6::boolean[], $7::text[])
      as m (id, epoch, lease_id, state, delay_ms, spent, ending)
  )
  update stint.job j
  set state = case
        -- Released before its turn alone was over, a suspect is still one.
        when m.delay_ms is null and j.reason = 'quarantine' then 'parked'
        when coalesce(m.delay_ms, 0) <= 0 then 'ready'
        else m.state
      end::stint.job_state,
      run_at = case when m.delay_ms is null then j.run_at else clock_timestamp() + m.delay_ms * interval '1 millisecond' end,
      attempts = j.attempts - case when m.spent then 0 else 1 end,
      interruptions = j.interruptions + case when m.spent then 0 else 1 end,
      lease_id = null,
      lease_until = null,
      worker = null,
      claimed_at = null,
      reason = case when m.delay_ms is null then j.reason end,
      log = ${ended}
  from mine m
  where ${fenced}
    and not j.cancel_requested
  returning j.id`,
);

/**
 * Give jobs back to be run again, each only if its fence still holds and nobody asked for its end meanwhile.
 * Answers the ids that went back.
 */
export async function putBack(db: Run, jobs: readonly PutBack[]): Promise<Set<string>> {
  const rows = await db.run(putBackJobs, [
    jobs.map((job) => job.fence.job),
    jobs.map((job) => job.fence.epoch),
    jobs.map((job) => job.fence.leaseId),
    jobs.map((job) => job.state),
    jobs.map((job) => (job.delayMs === null ? null : Math.ceil(job.delayMs))),
    jobs.map((job) => job.spent),
    jobs.map((job) => JSON.stringify(job.ending)),
  ]);
  return new Set(rows.map((row) => row["id"] as string));
}

const findSettled = statement(
  "settled",
  `
  with mine as (
    select * from unnest($1::uuid[], $2::uuid[]) as m (id, lease_id)
  )
  select m.id
  from mine m
  join stint.jobs j on j.id = m.id
  where (j.state = 'succeeded' and j.lease_id = m.lease_id)
    or exists (
      select from jsonb_array_elements(j.log) ended
      where ended ->> 'lease' = m.lease_id::text and ended ->> 'outcome' <> 'crashed'
    )`,
);

/**
 * Of these fences, the ones whose attempt was settled by its own worker. Asked after an answer was lost: without it
 * a worker would be told it lost jobs that it had in fact settled.
 */
export async function settledByOwner(db: Run, fences: readonly Fence[]): Promise<Set<string>> {
  const rows = await db.run(findSettled, [
    fences.map((fence) => fence.job),
    fences.map((fence) => fence.leaseId),
  ]);
  return new Set(rows.map((row) => row["id"] as string));
}
