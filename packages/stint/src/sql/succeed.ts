import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import { keyOfFence, type Fence } from "../model/job.ts";
import { arrayOf, fenced } from "./fences.ts";
import { toTallies } from "./tallies.ts";

const succeedJobs = statement(
  "succeed",
  `
  with mine as (
    select m.id, m.epoch, ($3::uuid[])[m.lease] as lease_id
    from unnest((select $1::uuid[]), (select $2::bigint[]), (select $4::integer[])) as m (id, epoch, lease)
  ), gone as (
    delete from stint.job j
    using mine m
    where ${fenced}
    returning
      j.id, j.kind, j.queue, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, j.meta, j.payload, j.log
  ), kept as (
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags, meta, payload, log
    )
    select
      id, kind, queue, 'succeeded', priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags, meta, payload, log
    from gone
    returning id, epoch, lease_id
  ), tallied as (
    ${toTallies("live")}
    select queue, kind, priority, -count(*) from gone group by queue, kind, priority
  )
  select case when count(*) < $5::integer then coalesce(array_agg(id || ' ' || epoch || ' ' || lease_id), '{}') end as settled from kept`,
);

/**
 * Move jobs that succeeded without a result into history: most jobs, and the shortest way. Returns the fences that still
 * held. Usually all of them did, and the database then lists none.
 */
export async function succeed(db: Run, fences: readonly Fence[]): Promise<Set<Fence>> {
  // Those of one claim have their lease id in common; sent once, it is not half of what is sent.
  const leases = [...new Set(fences.map((fence) => fence.leaseId))];
  const [row] = await db.run(succeedJobs, [
    arrayOf(fences.map((fence) => fence.job)),
    arrayOf(fences.map((fence) => fence.epoch)),
    arrayOf(leases),
    arrayOf(fences.map((fence) => leases.indexOf(fence.leaseId) + 1)),
    fences.length,
  ]);
  const settled = row?.["settled"] as string[] | null | undefined;
  if (!Array.isArray(settled)) return new Set(fences);
  const keys = new Set(settled);
  return new Set(fences.filter((fence) => keys.has(keyOfFence(fence))));
}
