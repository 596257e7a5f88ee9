import type { Run } from "../db/db.ts";
import { columns, oneOf, readMany, readOne, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Job } from "../model/job.ts";
import { states, type JobState } from "../model/state.ts";
import { calledInside, readInside, type InsideStatement } from "./inside.ts";
import { jobColumns, toJob } from "./rows.ts";

const getJob = statement("get", `select ${jobColumns} from stint.jobs where id = $1`);

export async function get(db: Run, id: string): Promise<Job | undefined> {
  const rows = await db.run(getJob, [id]);
  return rows.map(toJob)[0];
}

export type ListFilter = {
  states?: readonly JobState[];
  kind?: string;
  queue?: string;
  tenant?: string;
  key?: string;
  tag?: string;
  /** Only jobs enqueued before this one: the last id of the page before. */
  before?: string;
  limit: number;
};

const listJobs = statement(
  "list",
  `
  select ${jobColumns}
  from stint.jobs
  where state = any ($1::stint.job_state[])
    and ($2::text is null or kind = $2)
    and ($3::text is null or queue = $3)
    and ($4::text is null or tenant = $4)
    and ($5::text is null or key = $5)
    and ($6::text is null or $6 = any (tags))
    and ($7::uuid is null or id < $7)
  order by id desc
  limit $8`,
);

/** Newest first, by id. */
export async function list(db: Run, filter: ListFilter): Promise<Job[]> {
  const rows = await db.run(listJobs, [
    filter.states ?? states,
    filter.kind ?? null,
    filter.queue ?? null,
    filter.tenant ?? null,
    filter.key ?? null,
    filter.tag ?? null,
    filter.before ?? null,
    filter.limit,
  ]);
  return rows.map(toJob);
}

const findLast = statement(
  "last-of-chain",
  `
  select coalesce(first.last_id, $1) as id
  from (select $1::uuid as id) w
  left join stint.flow_job m on m.job_id = w.id
  left join stint.flow_job first on first.job_id = coalesce(m.chain_id, m.job_id)`,
);

/** The newest job of the chain that a job belongs to: the job itself, unless it was continued. */
export async function lastOfChain(db: Run, id: string): Promise<string> {
  return await readOne(db, findLast, [id], (row) => text(row, "id"));
}

// A chain ends with its last job. Nearly every job is a chain of its own, and has no row in flow_job.
const findFinished = statement(
  "finished",
  `
  select
    w.id,
    case when first.refused is null then h.state else 'dead' end as state,
    case when first.refused is null then h.result end as result,
    coalesce(first.refused, h.reason) as reason
  from unnest($1::uuid[]) as w (id)
  left join stint.flow_job m on m.job_id = w.id
  left join stint.flow_job first on first.job_id = coalesce(m.chain_id, m.job_id)
  join stint.history h on h.id = coalesce(first.last_id, w.id)`,
);

const toFinished = columns({
  id: text,
  state: oneOf(["succeeded", "dead", "cancelled"]),
  result: (row, column) => row[column] ?? null,
  reason: textOrNull,
});
export type Finished = ReturnType<typeof toFinished>;

/** Of these jobs, the ones whose chains have ended, with the outcome of the chain. */
export async function finished(db: Run, ids: readonly string[]): Promise<Finished[]> {
  return await readMany(db, findFinished, [ids], toFinished);
}

const findInside = statement(
  "find-inside",
  calledInside(
    `(select jsonb_build_object('kind', j.kind, 'state', j.state) from stint.jobs j where j.id = $1)`,
    "$2",
  ),
);

/** The kind and the state of a job, read within the transaction `xid`; null if there is no such job. */
export function findStatementInside(
  id: string,
  xid: string,
): InsideStatement<{ kind: string; state: string } | null> {
  return {
    statement: findInside,
    values: [id, xid],
    read: (rows) => readInside(rows)?.result as { kind: string; state: string } | null | undefined,
  };
}
