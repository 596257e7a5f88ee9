import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";

/** When the next run is due, and its payload as JSON text; null: that of this run. */
export type NextRun = {
  readonly delayMs: number | null;
  readonly at: string | null;
  readonly payload: string | null;
  /** The limit keys of that payload; null: those of this run. */
  readonly limits: readonly string[] | null;
};

const plan = statement(
  "plan-next-run",
  `
  with held as (
    update stint.job j
    set has_follow_ups = true
    where j.id = $1 and j.epoch = $2 and j.lease_id = $3
    returning
      j.id,
      jsonb_strip_nulls(jsonb_build_object(
        'id', stint.new_id(), 'kind', j.kind, 'queue', j.queue, 'priority', j.priority, 'max_attempts', j.max_attempts,
        'run_at', coalesce($5::timestamptz, clock_timestamp() + $4::bigint * interval '1 millisecond'),
        'max_crashes', j.max_crashes, 'timeout_ms', j.timeout_ms, 'lease_ms', j.lease_ms, 'key', j.key, 'tenant', j.tenant,
        'tags', j.tags, 'limits', coalesce($7::text[], j.limits), 'order', (select k from unnest(coalesce($7::text[], j.limits)) k where stint.is_ordered(k) limit 1), 'dedupe_key', j.dedupe_key, 'dedupe_until', j.dedupe_until))
      || case when j.meta is null then '{}' else jsonb_build_object('meta', j.meta - array['trace', 'schedule']) end
      -- Added last: stripping nulls would reach into what belongs to the caller.
      || jsonb_build_object('payload', coalesce($6::text::jsonb, j.payload)) as row
  ), planned as (
    insert into stint.next_run as n (job_id, row)
    select held.id, held.row from held
    on conflict (job_id) do update
      set row = excluded.row, stale = false
      -- An earlier run of this job has ended dead, and its next run exists: a replay must not make a second series.
      where n.made_at is null
  )
  select id from held`,
);

/** Plan the next run of a job that is running. The latest call counts. False: the fence no longer holds. */
export async function planNextRun(
  db: Run,
  { job, epoch, leaseId }: Fence,
  { delayMs, at, payload, limits }: NextRun,
): Promise<boolean> {
  return (await db.run(plan, [job, epoch, leaseId, delayMs, at, payload, limits])).length > 0;
}
