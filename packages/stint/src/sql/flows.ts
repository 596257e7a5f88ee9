import type { Row, Run } from "../db/db.ts";
import {
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  texts,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { withPayload, type EncodedRow } from "./enqueue.ts";
import { jobState } from "./rows.ts";

/** How a job that another one waited for ended, and its result. */
export type DependencyResult<Result = unknown> =
  | { readonly id: string; readonly kind: string; readonly state: "succeeded"; readonly result: Result }
  | {
      readonly id: string;
      readonly kind: string;
      readonly state: "dead" | "cancelled";
      readonly reason: string | null;
      readonly result?: undefined;
    };

const selectResults = statement(
  "dependency-results",
  `
  select on_id as id, kind, state, result, reason
  from stint.flow_edge
  where job_id = $1 and state is not null and ($2::text is null or kind = $2)
  order by ordinal`,
);

/** What the jobs that this one waited for returned, in the order in which they were given. */
export async function dependencyResults(
  db: Run,
  job: string,
  kind: string | null,
): Promise<DependencyResult[]> {
  return await readMany(db, selectResults, [job, kind], toResult);
}

const readState = oneOf(["succeeded", "dead", "cancelled"]);

function toResult(row: Row): DependencyResult {
  const [id, kind, state] = [text(row, "id"), text(row, "kind"), readState(row, "state")];
  return state === "succeeded"
    ? { id, kind, state, result: row["result"] ?? null }
    : { id, kind, state, reason: textOrNull(row, "reason") };
}

/**
 * How a flow stands. `stuck`: none of its live parts can continue by itself. `failed`: it has ended, and a part is dead or cancelled. `stopped`: it was
 * cancelled, or a part failed and the others are undone.
 */
export type FlowState =
  | "running"
  | "stuck"
  | "succeeded"
  | "failed"
  | "stopped"
  | "compensating"
  | "compensated";

export type FlowSummary = {
  readonly id: string;
  readonly name: string | null;
  readonly state: FlowState;
  readonly createdAt: Date;
  /** When its last part ended; null while parts are live. */
  readonly endedAt: Date | null;
  /** Why it was stopped. */
  readonly reason: string | null;
  readonly parts: number;
  readonly live: number;
  /** Parts that wait for others. */
  readonly blocked: number;
  readonly succeeded: number;
  readonly dead: number;
  readonly cancelled: number;
};

/** One job of a flow. */
export type FlowPart = {
  readonly id: string;
  readonly name: string | null;
  readonly kind: string;
  readonly state: JobState;
  readonly parkReason: string | null;
  readonly reason: string | null;
  readonly runAt: Date | null;
  readonly endedAt: Date | null;
  /** The jobs it waits for, continues or was spawned by, of this flow or of others. */
  readonly after: readonly string[];
  /** The job that it undoes. */
  readonly undoes: string | null;
  /** Why its continuation was refused. */
  readonly refused: string | null;
};

export type FlowView = FlowSummary & {
  /** In an order in which each part comes after those that it waits for; at most a thousand. */
  readonly jobs: readonly FlowPart[];
};

const summary = `
    f.id, f.name, f.created_at, f.reason, f.stopped_at is not null as stopped, f.compensated_at is not null as compensated,
    c.parts, c.live, c.blocked, c.moving, c.succeeded, c.dead, c.cancelled, case when c.live = 0 then c.ended_at end as ended_at`;

const counted = `
  cross join lateral (
    select
      count(*)::integer as parts,
      (count(*) filter (where m.state is null))::integer as live,
      (count(*) filter (where j.park_reason = 'blocked'))::integer as blocked,
      (count(*) filter (where m.state is null and j.state is distinct from 'parked'))::integer as moving,
      (count(*) filter (where m.state = 'succeeded'))::integer as succeeded,
      (count(*) filter (where m.state = 'dead' or m.refused is not null))::integer as dead,
      (count(*) filter (where m.state = 'cancelled'))::integer as cancelled,
      max(m.ended_at) as ended_at
    from stint.flow_job m
    left join stint.job j on m.state is null and j.id = m.job_id
    where m.flow_id = f.id
  ) c`;

const selectFlows = statement(
  "flows",
  `
  select ${summary}
  from (
    select f.* from stint.flow f
    where (not $1::boolean or exists (select from stint.flow_job m where m.flow_id = f.id and m.state is null))
      and ($3::text = '' or position(lower($3) in lower(f.name)) > 0)
      and ($4::uuid is null or (f.created_at, f.id) < (select a.created_at, a.id from stint.flow a where a.id = $4))
    order by f.created_at desc, f.id desc
    limit $2
  ) f${counted}
  order by f.created_at desc, f.id desc`,
);

export type FlowFilter = {
  readonly live: boolean;
  /** Part of the name, in any case. */
  readonly search: string;
  /** The last flow of the page before. */
  readonly after: string | null;
  readonly limit: number;
};

/** Flows, newest first. */
export async function listFlows(db: Run, { live, search, after, limit }: FlowFilter): Promise<FlowSummary[]> {
  return await readMany(db, selectFlows, [live, limit, search, after], toSummary);
}

const selectFlow = statement(
  "flow",
  `
  select ${summary}
  from stint.flow f${counted}
  where f.id = coalesce((select m.flow_id from stint.flow_job m where m.job_id = $1), $1)`,
);

const selectParts = statement(
  "flow-parts",
  `
  select
    m.job_id as id, m.name, m.kind, coalesce(j.state, m.state, 'scheduled') as state, j.park_reason,
    coalesce(j.reason, (select h.reason from stint.history h where h.id = m.job_id limit 1)) as reason, j.run_at, m.ended_at, m.undoes, m.refused,
    array(
      select e.on_id::text from stint.flow_edge e where e.job_id = m.job_id and e.on_id is distinct from m.undoes order by e.ordinal
    ) || array(
      select p.job_id::text from stint.flow_job p where p.flow_id = m.flow_id and m.chain_id is not null
        and coalesce(p.chain_id, p.job_id) = m.chain_id and p.position = m.position - 1
    ) || case when m.parent_id is not null and m.chain_id is null then array[m.parent_id::text] else '{}' end as after
  from (
    select * from stint.flow_job m where m.flow_id = $1 order by m.job_id limit 1000
  ) m
  left join stint.job j on m.state is null and j.id = m.job_id
  order by m.job_id`,
);

/** A flow by its id or by that of one of its jobs. */
export async function findFlow(db: Run, id: string): Promise<FlowView | undefined> {
  const found = await readMaybe(db, selectFlow, [id], toSummary);
  return found === undefined ? undefined : { ...found, jobs: await partsOf(db, found.id) };
}

/** The first thousand parts of a flow. */
export async function partsOf(db: Run, flow: string): Promise<FlowPart[]> {
  return await readMany(db, selectParts, [flow], toPart);
}

function toSummary(row: Row): FlowSummary {
  const [live, dead, cancelled] = [number(row, "live"), number(row, "dead"), number(row, "cancelled")];
  const state = (): FlowState => {
    if (flag(row, "compensated")) return live > 0 ? "compensating" : "compensated";
    if (flag(row, "stopped")) return "stopped";
    if (live > 0) return number(row, "moving") > 0 ? "running" : "stuck";
    return dead + cancelled > 0 ? "failed" : "succeeded";
  };
  return {
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    state: state(),
    createdAt: time(row, "created_at"),
    endedAt: timeOrNull(row, "ended_at"),
    reason: textOrNull(row, "reason"),
    parts: number(row, "parts"),
    live,
    blocked: number(row, "blocked"),
    succeeded: number(row, "succeeded"),
    dead,
    cancelled,
  };
}

function toPart(row: Row): FlowPart {
  return {
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    kind: text(row, "kind"),
    state: jobState(row, "state"),
    parkReason: textOrNull(row, "park_reason"),
    reason: textOrNull(row, "reason"),
    runAt: timeOrNull(row, "run_at"),
    endedAt: timeOrNull(row, "ended_at"),
    after: texts(row, "after"),
    undoes: textOrNull(row, "undoes"),
    refused: textOrNull(row, "refused"),
  };
}

/** A part beside a job in its flow. */
export type FlowNeighbour = {
  readonly id: string;
  readonly kind: string;
  readonly name: string | null;
  readonly state: JobState | null;
};

/** The place of a job in its flow. */
export type JobFlow = {
  readonly id: string;
  readonly name: string | null;
  /** The jobs it waits for, continues or was spawned by; at most twenty. */
  readonly before: readonly FlowNeighbour[];
  /** The jobs that wait for it, continue it or that it spawned; at most twenty. */
  readonly after: readonly FlowNeighbour[];
};

const neighbours = (ids: string): string => `
    coalesce((
      select jsonb_agg(jsonb_build_object('id', n.id, 'kind', n.kind, 'name', p.name, 'state', coalesce(j.state, p.state)))
      from (select distinct on (i.id) i.id, i.kind from (${ids}) i order by i.id limit 20) n
      left join stint.flow_job p on p.job_id = n.id
      left join stint.job j on j.id = n.id
    ), '[]')`;

const selectPlace = statement(
  "job-flow",
  `
  select
    f.id, f.name,${neighbours(`
      select e.on_id as id, e.kind from stint.flow_edge e where e.job_id = m.job_id and e.on_id is distinct from m.undoes
      union all
      select p.job_id, p.kind from stint.flow_job p
      where p.flow_id = m.flow_id and m.chain_id is not null and coalesce(p.chain_id, p.job_id) = m.chain_id and p.position = m.position - 1
      union all
      select p.job_id, p.kind from stint.flow_job p where m.chain_id is null and p.job_id = m.parent_id`)} as before,${neighbours(`
      select e.job_id as id, w.kind from stint.flow_edge e join stint.flow_job w on w.job_id = e.job_id
      where e.on_id = coalesce(m.chain_id, m.job_id)
      union all
      select p.job_id, p.kind from stint.flow_job p
      where p.flow_id = m.flow_id and p.chain_id = coalesce(m.chain_id, m.job_id) and p.position = m.position + 1
      union all
      select p.job_id, p.kind from stint.flow_job p where p.parent_id = m.job_id and p.chain_id is null`)} as after
  from stint.flow_job m
  join stint.flow f on f.id = m.flow_id
  where m.job_id = $1`,
);

/** Where a job stands in its flow; undefined if it is part of none. */
export async function jobFlow(db: Run, job: string): Promise<JobFlow | undefined> {
  return await readMaybe(db, selectPlace, [job], (row) => ({
    id: text(row, "id"),
    name: textOrNull(row, "name"),
    before: json<FlowNeighbour[]>(row, "before"),
    after: json<FlowNeighbour[]>(row, "after"),
  }));
}

const cancelOne = statement("cancel-flow", `select cancelled, missed from stint.cancel_flow($1, $2, $3)`);

/**
 * Returns how many parts were cancelled or asked to stop, and how many were locked and are still to be cancelled; undefined if there is no such
 * flow.
 */
export async function cancelFlow(
  db: Run,
  id: string,
  actor: string,
  reason: string | null,
): Promise<{ readonly cancelled: number; readonly missed: number } | undefined> {
  return await readOne(db, cancelOne, [id, actor, reason], (row) => {
    const cancelled = numberOrNull(row, "cancelled");
    return cancelled === null ? undefined : { cancelled, missed: number(row, "missed") };
  });
}

const addJobs = statement("add-to-batch", `select stint.add_to_batch($1, $2::text::jsonb)`);

export async function addToBatch(db: Run, batch: string, rows: readonly EncodedRow[]): Promise<void> {
  await db.run(addJobs, [batch, `[${rows.map(withPayload).join(",")}]`]);
}

const closeOne = statement("close-batch", `select stint.close_batch($1)`);

export async function closeBatch(db: Run, batch: string): Promise<void> {
  await db.run(closeOne, [batch]);
}
