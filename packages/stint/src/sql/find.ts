import type { Run } from "../db/db.ts";
import { columns, oneOf, readMany, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Job } from "../model/job.ts";
import { states, type JobState } from "../model/state.ts";
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

export type Finished = {
  id: string;
  state: "succeeded" | "dead" | "cancelled";
  result: unknown;
  reason: string | null;
};

const findFinished = statement(
  "finished",
  `select id, state, result, reason from stint.history where id = any ($1::uuid[])`,
);

const toFinished = columns<Finished>({
  id: text,
  state: oneOf(["succeeded", "dead", "cancelled"]),
  result: (row, column) => row[column] ?? null,
  reason: textOrNull,
});

/** Of these jobs, the ones that have ended. */
export async function finished(db: Run, ids: readonly string[]): Promise<Finished[]> {
  return await readMany(db, findFinished, [ids], toFinished);
}
