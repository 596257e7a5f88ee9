import type { Run, RunOptions } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { ClaimedJob } from "../model/job.ts";
import { claimValues, inTime, leased, type ClaimInput } from "./claim.ts";
import { claimedColumns } from "./job-columns.ts";
import { toClaimedJob } from "./rows.ts";

/**
 * So many jobs more are read than asked for: other workers, which claim the oldest jobs, too, may have locked the first of them at this moment. The limit is
 * a sub-select: if the planner knew it, it might rather sort all overdue jobs of the priority.
 */
const spare = 16;

/**
 * The ready jobs of queue $7 that have waited for longer than $9 milliseconds, oldest first, whatever their priority. The index has them by priority
 * and then by time: of each priority, only the head is read. They are locked only when they are chosen, so that no job is locked that is not taken.
 */
const claimOverdue = statement(
  "claim-aged",
  `
  with recursive priorities (priority) as (
    (
      select f.priority
      from stint.job f
      where f.state = 'ready' and f.queue = stint.by_index($7::text)
      order by f.priority
      limit 1
    )
    union all
    select (
      select f.priority
      from stint.job f
      where f.state = 'ready' and f.queue = stint.by_index($7::text) and f.priority > last.priority
      order by f.priority
      limit 1
    )
    from priorities last
    where last.priority is not null
  ), heads as materialized (
    select head.*
    from priorities p
    cross join lateral (
      select r.ctid as place, r.run_at, r.id
      from stint.job r
      where r.state = 'ready'
        and r.queue = stint.by_index($7::text)
        and r.priority = p.priority
        and r.run_at <= statement_timestamp() - $9::bigint * interval '1 millisecond'
        and r.kind = any ($5::text[])
      order by r.run_at, r.id
      limit (select $8::integer + ${spare})
    ) head
  )
  update stint.job j
  set ${leased}
  where j.ctid = any (array(
      select chosen.ctid
      from (select h.place from heads h order by h.run_at, h.id) oldest
      cross join lateral (
        select r.ctid
        from stint.job r
        where r.ctid = oldest.place
          and r.state >= 'ready' and r.state <= 'ready'
          and r.queue = $7::text
        for update skip locked
      ) chosen
      limit $8::integer
    ))
    and j.state >= 'ready' and j.state <= 'ready'
    and ${inTime}
  returning ${claimedColumns}`,
  { asText: true },
);

export type AgedClaimInput = Omit<ClaimInput, "takes"> & {
  readonly queue: string;
  readonly limit: number;
  readonly agingMs: number;
};

/** Lease up to `limit` ready jobs of one queue that have waited for longer than `agingMs`, the oldest first. */
export async function claimAged(db: Run, input: AgedClaimInput, options?: RunOptions): Promise<ClaimedJob[]> {
  const { queue, limit, agingMs } = input;
  const rows = await db.run(claimOverdue, [...claimValues(input), queue, limit, agingMs], options);
  return rows
    .map((row) => toClaimedJob(row, input))
    .sort((a, b) => (a.runAt < b.runAt || (a.runAt === b.runAt && a.fence.job < b.fence.job) ? -1 : 1));
}
