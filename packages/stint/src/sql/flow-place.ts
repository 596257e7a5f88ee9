import type { Row, Run } from "../db/db.ts";
import { flag, json, number, readMaybe, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";

/** A job that another one waits for. */
export type OpenDependency = {
  /** The newest job of the chain that is waited for. */
  readonly id: string;
  readonly kind: string;
  readonly state: JobState;
  readonly parkReason: string | null;
};

/** What the flow of a job says about it. */
export type FlowPlace = {
  readonly flow: string;
  /** Why its flow was stopped. */
  readonly stopped: string | null;
  /** How many jobs it waits for, of how many. */
  readonly pending: number;
  readonly waitsFor: number;
  /** The first of them: those that failed, then those that are live. */
  readonly open: readonly OpenDependency[];
  /** It is the callback of a batch that was not closed. */
  readonly isOpen: boolean;
  /** Why its continuation was refused. */
  readonly refused: string | null;
  /** Live jobs that wait for it, counted up to 101. */
  readonly waitedForBy: number;
};

const selectPlace = statement(
  "flow-place",
  `
  select
    m.flow_id as flow, case when f.stopped_at is not null then coalesce(f.reason, '') end as stopped,
    m.pending, m.is_open, m.refused,
    (select count(*) from stint.flow_edge e where e.job_id = m.job_id)::integer as waits_for,
    (
      select count(*)
      from (
        select from stint.flow_edge e join stint.flow_job w on w.job_id = e.job_id
        where e.on_id = coalesce(m.chain_id, m.job_id) and w.state is null
        limit 101
      ) waiting
    )::integer as waited_for_by,
    (
      select coalesce(jsonb_agg(o), '[]')
      from (
        select
          coalesce(d.last_id, e.on_id) as id, coalesce(j.kind, e.kind) as kind, coalesce(e.state, j.state) as state, j.park_reason as "parkReason"
        from stint.flow_edge e
        left join stint.flow_job d on d.job_id = e.on_id
        left join stint.job j on e.state is null and j.id = coalesce(d.last_id, e.on_id)
        where e.job_id = m.job_id and (e.state is null or (m.on_failure <> 'run' and e.state <> 'succeeded'))
        order by e.state is null, e.ordinal
        limit 5
      ) o
      where o.state is not null
    ) as open
  from stint.flow_job m
  left join stint.flow f on f.id = m.flow_id
  where m.job_id = $1`,
);

/** Undefined: the job is no part of a flow. */
export async function flowPlace(db: Run, id: string): Promise<FlowPlace | undefined> {
  return await readMaybe(db, selectPlace, [id], toPlace);
}

const dependencies = json<OpenDependency[]>;

function toPlace(row: Row): FlowPlace {
  return {
    flow: text(row, "flow"),
    stopped: textOrNull(row, "stopped"),
    pending: number(row, "pending"),
    waitsFor: number(row, "waits_for"),
    open: dependencies(row, "open"),
    isOpen: flag(row, "is_open"),
    refused: textOrNull(row, "refused"),
    waitedForBy: number(row, "waited_for_by"),
  };
}
