import type { Run } from "../db/db.ts";
import { orNull, readOne, texts } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { keyOfFence, type Fence } from "../model/job.ts";
import { arrayOf, fenced } from "./fences.ts";
import { finishWithFollowUps } from "./finish.ts";
import { plain, tallied, toHistory } from "./transitions.ts";

const succeedJobs = statement(
  "succeed",
  `
  with mine as (
    select m.id, m.epoch, ($3::uuid[])[m.lease] as lease_id
    from unnest((select $1::uuid[]), (select $2::bigint[]), (select $4::integer[])) as m (id, epoch, lease)
  ), ${toHistory({ using: "mine m", where: `${fenced} and ${plain}` }, { state: "'succeeded'::stint.job_state", reason: "null::text" })}, tallied as (
    ${tallied("gone", { was: ["running"], becomes: ["succeeded"] })}
  )
  select case when (select count(*) from gone) < $5::integer
    -- A subquery, because an aggregate would be computed for every job even if it is not needed.
    then (select coalesce(array_agg(id || ' ' || epoch || ' ' || lease_id), '{}') from gone)
  end as settled`,
);

const textsOrNull = orNull(texts);

/**
 * Move jobs that succeeded without a result into history: most jobs, by the cheapest statement. Returns the fences that still
 * held. Usually all of them did, and the database then lists none.
 */
export async function succeed(db: Run, fences: readonly Fence[]): Promise<Set<Fence>> {
  // The jobs of one claim share their lease id. Sent for each job, it would be half of the message.
  const leases = [...new Set(fences.map((fence) => fence.leaseId))];
  const values = [
    arrayOf(fences.map((fence) => fence.job)),
    arrayOf(fences.map((fence) => fence.epoch)),
    arrayOf(leases),
    arrayOf(fences.map((fence) => leases.indexOf(fence.leaseId) + 1)),
    fences.length,
  ];
  const settled = await readOne(db, succeedJobs, values, (row) => textsOrNull(row, "settled"));
  if (settled === null) return new Set(fences);
  const keys = new Set(settled);
  const ended = new Set(fences.filter((fence) => keys.has(keyOfFence(fence))));
  const jobs = fences.map((fence) => ({ ...success, fence }));
  return new Set([...ended, ...(await finishWithFollowUps(db, jobs, ended))]);
}

const success = { state: "succeeded", result: null, reason: null, ending: null } as const;
