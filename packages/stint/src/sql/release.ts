import type { Row, Run, RunOptions } from "../db/db.ts";
import { oneOf, readMany, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { fenced, fenceValues, mine, toFence } from "./fences.ts";
import { afterFollowUps, followed, tallied, unleased } from "./transitions.ts";

const releaseJobs = statement(
  "release",
  `
  with ${mine}, free as materialized (
    select j.id, j.lease_id, j.cancel_requested
    from mine m
    join stint.job j on ${fenced}
    for update of j skip locked
  ), back as (
    update stint.job j
    set state = case when j.park_reason = 'quarantine' then 'parked' else 'ready' end::stint.job_state,
        attempts = j.attempts - 1,
        ${unleased}
    from free
    where j.id = free.id and j.lease_id = free.lease_id
      and not free.cancel_requested
    returning j.id, j.queue, j.kind, j.priority, j.state, j.has_follow_ups
  ), tallied as (
    ${tallied("back", { was: ["running"], becomes: ["ready", "parked"] })}
  ), ${followed("back")}
  select
    m.id, m.epoch, m.lease_id, back.queue,
    case
      when back.id is not null then 'back'
      when free.cancel_requested then 'cancelled'
      when j.id is not null then 'locked'
      else 'lost'
    end as went
  from mine m
  left join stint.job j on ${fenced}
  left join free on free.id = j.id
  left join back on back.id = j.id
  where ${afterFollowUps}`,
);

/**
 * `cancelled`: a cancel was requested; the caller still holds the job and must finish it. `locked`: another session locked the row;
 * try again.
 */
export type Released = {
  fence: Fence;
  queue: string | null;
  went: "back" | "cancelled" | "locked" | "lost";
};

const readWent = oneOf(["back", "cancelled", "locked", "lost"]);

function toReleased(row: Row): Released {
  return { fence: toFence(row), queue: textOrNull(row, "queue"), went: readWent(row, "went") };
}

/**
 * Return jobs that were claimed but never begun to their old places in their queues. Nothing is spent and nothing is logged. Rows
 * that another session has locked are skipped, as in a renewal: waiting for them would let the other leases run out.
 */
export async function release(db: Run, fences: readonly Fence[], options?: RunOptions): Promise<Released[]> {
  return await readMany(db, releaseJobs, fenceValues(fences), toReleased, options);
}
