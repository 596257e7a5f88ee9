import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { fencesIn, fenceValues, mine } from "./fences.ts";

const findSettled = statement(
  "settled",
  `
  with ${mine}
  select m.id, m.epoch, m.lease_id
  from mine m
  join stint.jobs j on j.id = m.id
  where (j.state = 'succeeded' and j.lease_id = m.lease_id)
    or exists (
      select from jsonb_array_elements(j.log) ended
      where ended ->> 'lease' = m.lease_id::text
        -- A rescue records a crash without an error; the worker of an isolated handler has one.
        and (ended ->> 'outcome' <> 'crashed' or ended ? 'error')
    )
    -- An attempt that ended in a sleep or a wait is not in the log.
    or (j.lease_id is distinct from m.lease_id and exists (
      select from stint.step w where w.job_id = m.id and w.epoch = m.epoch and w.is_pending
    ))`,
);

/**
 * Those of these fences whose attempt was settled by its own worker. Used after a response was lost: without it a worker would
 * report jobs as lost that it had in fact settled.
 */
export async function settledByOwner(db: Run, fences: readonly Fence[]): Promise<Set<Fence>> {
  return fencesIn(await db.run(findSettled, fenceValues(fences)), fences);
}
