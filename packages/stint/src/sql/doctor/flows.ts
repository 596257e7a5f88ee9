import type { Row, Run } from "../../db/db.ts";
import { json, number, readOne } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

/** A job of a flow that needs a person, and why. */
export type FlowProblem = {
  readonly id: string;
  readonly kind: string;
  readonly flow: string;
  readonly why: string;
};

export type FlowProblems = {
  /** Live flows, counted up to 10,000. */
  readonly live: number;
  /** Jobs that wait for one that is dead or cancelled. */
  readonly stuck: readonly FlowProblem[];
  /** Callbacks of batches that are open for more than a day. */
  readonly open: readonly FlowProblem[];
  /** Jobs of the last week whose continuation was refused. */
  readonly refused: readonly FlowProblem[];
  /** Compensations that died. */
  readonly undone: readonly FlowProblem[];
};

/** The most jobs of each sort that are reported. */
export const mostProblems = 100;

// Every part reads a partial index, and no more of it than it reports.
const readProblems = statement(
  "flow-problems",
  `
  with blocked as materialized (
    select j.id, j.kind, m.flow_id, j.reason, m.is_open, j.created_at
    from (
      select * from stint.job where state = 'parked' and park_reason = 'blocked' order by park_reason, run_at limit 10000
    ) j
    join stint.flow_job m on m.job_id = j.id
  ), found as (
    (select 'stuck' as what, id, kind, flow_id, reason as why from blocked where reason is not null limit ${mostProblems})
    union all
    (
      select 'open', id, kind, flow_id, 'since ' || created_at::text
      from blocked where is_open and created_at < clock_timestamp() - interval '1 day' limit ${mostProblems}
    )
    union all
    (
      select 'refused', m.job_id, m.kind, m.flow_id, m.refused
      from stint.flow_job m
      where m.refused is not null and m.chain_id is null and coalesce(m.ended_at, clock_timestamp()) > clock_timestamp() - interval '7 days'
      limit ${mostProblems}
    )
    union all
    (
      select 'undone', m.job_id, m.kind, m.flow_id, 'it undoes ' || m.undoes::text
      from stint.flow_job m
      where m.undoes is not null and m.state = 'dead'
      limit ${mostProblems}
    )
  )
  select
    (select count(distinct flow_id)::integer from blocked) as live,
    coalesce((
      select jsonb_agg(jsonb_build_object('what', what, 'id', id, 'kind', kind, 'flow', flow_id, 'why', why) order by id) from found
    ), '[]') as problems`,
);

const problemsOf = json<(FlowProblem & { what: string })[]>;

export async function flowProblems(db: Run): Promise<FlowProblems> {
  return await readOne(db, readProblems, [], (row: Row) => {
    const all = problemsOf(row, "problems");
    const of = (what: string): FlowProblem[] => all.filter((one) => one.what === what);
    return {
      live: number(row, "live"),
      stuck: of("stuck"),
      open: of("open"),
      refused: of("refused"),
      undone: of("undone"),
    };
  });
}
