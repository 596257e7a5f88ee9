import type { Run } from "../../db/db.ts";
import { columns, number, numberOrNull, readMany, text } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

/** How long the handlers of a kind go without a finished step. */
export type StepGaps = {
  readonly kind: string;
  /** How many gaps between two steps of one attempt were looked at. */
  readonly gaps: number;
  readonly longest_ms: number;
  readonly stall_after_ms: number | null;
};

// Only the newest steps: their jobs are the end of the primary key. Waits are no gaps, and neither is the time between two attempts.
const readGaps = statement(
  "step-gaps",
  `
  with newest as materialized (
    select job_id, type, epoch, at from stint.step order by job_id desc limit 20000
  ), gaps as (
    select
      job_id, type, epoch, at, lag(at) over steps as before, lag(epoch) over steps as epoch_before, lag(type) over steps as type_before
    from newest
    window steps as (partition by job_id order by at)
  ), longest as materialized (
    select job_id, count(*) as gaps, max(at - before) as longest
    from gaps
    where type = 'step' and type_before = 'step' and epoch = epoch_before
    group by job_id
  )
  select
    j.kind, sum(l.gaps)::float8 as gaps, (extract(epoch from max(l.longest)) * 1000)::float8 as longest_ms,
    k.stall_after_ms::float8
  from longest l
  cross join lateral (select jobs.kind from stint.jobs where jobs.id = l.job_id limit 1) j
  join stint.kind k on k.name = j.kind
  group by j.kind, k.stall_after_ms
  order by j.kind`,
);

/** The gaps between finished steps, by kind, as recent jobs had them. */
export async function stepGaps(db: Run): Promise<StepGaps[]> {
  return await readMany(
    db,
    readGaps,
    [],
    columns<StepGaps>({ kind: text, gaps: number, longest_ms: number, stall_after_ms: numberOrNull }),
  );
}
