import type { DbTx, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { logWith, type Ending } from "./ending.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { toTallies } from "./tallies.ts";

export type Finish = {
  fence: Fence;
  state: "succeeded" | "dead" | "cancelled";
  /** JSON text. */
  result: string | null;
  reason: string | null;
  /** Left out for a success: the finished row itself says all of it. */
  ending: Ending | null;
};

/** `only`: a further condition. */
const finishing = (only: string): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[]),
        (select $6::text[]), (select $7::text[])
      ) as m (id, epoch, lease_id, state, result, reason, ending)
  ), gone as (
    delete from stint.job j
    using mine m
    where ${fenced}${only}
    returning
      j.id, j.kind, j.queue, m.state, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, m.reason, j.meta, j.payload, m.result, j.cancel_requested,
      case when m.ending is null then j.log else ${logWith("j", "m.ending::jsonb")} end as log
  ), tallied as (
    ${toTallies("live, dead")}
    select queue, kind, priority, -count(*), count(*) filter (where state = 'dead')
    from gone
    group by queue, kind, priority
  )
  insert into stint.history (
    id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, reason, meta, payload, result, log
  )
  select
    id, kind, queue, state::stint.job_state, priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, case when state = 'cancelled' and cancel_requested then coalesce(stint.cancel_reason(id), reason) else reason end,
    meta, payload, result::jsonb, log
  from gone
  returning id, epoch, lease_id`;

const finishJobs = statement("finish", finishing(""));

/** Move ended jobs into history, each only if its fence still holds. Returns the fences that did. */
export async function finish(db: Run, jobs: readonly Finish[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(finishJobs, [
    ...fenceValues(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => job.result),
    jobs.map((job) => job.reason),
    jobs.map((job) => (job.ending === null ? null : JSON.stringify(job.ending))),
  ]);
  return fencesIn(rows, fences);
}

const begunAt = `(extract(epoch from transaction_timestamp()) * 1000000)::bigint`;
const finishLent = statement("finish-lent", finishing(` and ${begunAt} = $8::bigint`));
const isBegunAt = statement("is-begun-at", `select ${begunAt} = $1::bigint as same`);

/**
 * Record a success in the transaction that its handler was given, if that is still the one that began at this time: after a raw
 * commit or rollback of the handler's this would be written without, or apart from, what belongs to it.
 */
export async function finishInLent(
  tx: DbTx,
  fence: Fence,
  result: string | null,
): Promise<"finished" | "lost" | "another transaction"> {
  const rows = await tx.run(finishLent, [
    ...fenceValues([fence]),
    ["succeeded"],
    [result],
    [null],
    [null],
    tx.begunAt,
  ]);
  if (rows.length > 0) return "finished";
  const [row] = await tx.run(isBegunAt, [tx.begunAt]);
  return row?.["same"] === true ? "lost" : "another transaction";
}
