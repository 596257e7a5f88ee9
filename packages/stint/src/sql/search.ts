import type { Row, Run } from "../db/db.ts";
import { number, readMany, readOne, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { toLike } from "../model/name-pattern.ts";
import type { JobState } from "../model/state.ts";
import { commonIn, fingerprintOf, lastError, whyDied } from "./error-fingerprint.ts";
import { listedColumns, select } from "./job-columns.ts";
import { toJobHead, type JobHead } from "./rows.ts";

/**
 * The filter of a search. Job ids are ordered by time, so a span of time is a span of ids. All statements here read the newest
 * first, by primary key, and need no further index.
 */
export type Search = {
  readonly states: readonly JobState[];
  /** A kind, or a pattern for kinds. No index is by kind, so a pattern costs as much as a name. */
  readonly kind: string | null;
  /** A queue, or a pattern for queues. Only the index of ready jobs is by queue; a pattern is searched without it. */
  readonly queue: string | null;
  readonly tenant: string | null;
  readonly key: string | null;
  readonly tag: string | null;
  readonly error: string | null;
  readonly fingerprint: string | null;
  /** Ids below this, and from this on. */
  readonly before: string;
  readonly from: string;
};

/** A job as lists show it: no payload, no result. */
export type FoundJob = JobHead & {
  /** The last error, shortened. */
  readonly error: { readonly name: string; readonly message: string } | null;
};

const live = select("j", listedColumns, { finished_at: "null::timestamptz" });
const ended = select("h", listedColumns, { park_reason: "null::text" });

const shown = `
    ${select(
      "w",
      listedColumns.filter((name) => name !== "log"),
      { reason: "left(w.reason, 1000)" },
    )},
    left(${lastError} ->> 'class', 200) as error_name, left(${lastError} ->> 'message', 500) as error_message`;

const matching = `
    w.id >= $9::uuid
    and w.state = any ($1::stint.job_state[])
    and ($2::text is null or w.kind like $2)
    and ($3::text is null or w.queue like $3)
    and ($4::text is null or w.tenant = $4)
    and ($5::text is null or w.key = $5)
    and ($6::text is null or $6 = any (w.tags))
    and ($7::text is null
      or strpos(lower(w.reason), lower($7)) > 0
      or strpos(lower(${lastError} ->> 'message'), lower($7)) > 0)
    and ($10::text is null or (w.state = 'dead' and ${fingerprintOf("w.kind", commonIn(whyDied))} = $10))`;

/**
 * A window: a fixed number of the newest jobs below an id. The filter is applied afterwards, so that the cost of a window is
 * known in advance. `$11` to `$13`: whether live, done and dead jobs are included.
 */
const window = `
  with walked as materialized (
    select *
    from stint.newest_between($8::uuid, $9::uuid, $11::boolean, $12::boolean, $13::boolean, $14::integer)
  ), reached as (
    -- The last id of a full window. None: everything in the span was read.
    select last.id
    from (select id from walked order by id limit 1) last
    where (select count(*) from walked) = $14::integer
  )`;

const walkJobs = statement(
  "walk",
  `${window}, found as (
    select ${shown}
    from walked w
    where ${matching}
    order by w.id desc
    limit $15::integer
  )
  select (select id from reached) as reached, (select count(*) from walked)::integer as examined, found.*
  from (select) one
  left join found on true
  order by found.id desc`,
);

const countWalked = statement(
  "count-walk",
  `${window}
  select
    (select id from reached) as reached,
    (select count(*) from walked)::integer as examined,
    (select count(*) from walked w where ${matching})::integer as count`,
);

/** One window of a walk. `reached`: continue below this id; null at the end. */
export type Walked<T> = { readonly found: T; readonly examined: number; readonly reached: string | null };

/** Look through the newest `rows` jobs of the search for at most `limit` that match. */
export async function walk(
  db: Run,
  search: Search,
  window: { rows: number; limit: number },
): Promise<Walked<FoundJob[]>> {
  const values = [...windowValues(search, window.rows), window.limit];
  const rows = await readMany(db, walkJobs, values, (row) => toWalked(row, toFoundOrNull(row)));
  const { examined = 0, reached = null } = rows[0] ?? {};
  return { examined, reached, found: rows.flatMap(({ found }) => found ?? []) };
}

/** How many of the newest `rows` jobs match. */
export async function countWalk(db: Run, search: Search, window: { rows: number }): Promise<Walked<number>> {
  const values = windowValues(search, window.rows);
  return await readOne(db, countWalked, values, (row) => toWalked(row, number(row, "count")));
}

function toWalked<T>(row: Row, found: T): Walked<T> {
  return { found, examined: number(row, "examined"), reached: textOrNull(row, "reached") };
}

function values(search: Search): unknown[] {
  const { states, kind, queue, tenant, key, tag, error, before, from, fingerprint } = search;
  return [
    states,
    kind === null ? null : toLike(kind),
    queue === null ? null : toLike(queue),
    tenant,
    key,
    tag,
    error,
    before,
    from,
    fingerprint,
  ];
}

function windowValues(search: Search, rows: number): unknown[] {
  const has = (...states: JobState[]): boolean => states.some((state) => search.states.includes(state));
  return [
    ...values(search),
    has("scheduled", "ready", "running", "retrying", "parked"),
    has("succeeded", "cancelled"),
    has("dead"),
    rows,
  ];
}

/** An index with few jobs is read completely, instead of walking through all jobs. */
export type Few = { key: boolean; running: boolean; parked: boolean; due: boolean; ready: boolean };

// Ordered by the index, with a lower bound on its column, so that the planner always chooses this index for the first rows. Each is
// read up to one more than the limit, which shows that there are too many to gather.
const least = `stint.by_index((select '-infinity'::timestamptz))`;
const few = `
  with gathered as materialized (
    (select ${live} from stint.job j where $11::boolean and key = stint.by_index((select $5::text)) limit $16::integer)
    union all
    (select ${ended} from stint.history h where $11::boolean and key = stint.by_index((select $5::text)) limit $16::integer)
    union all
    (
      select ${live} from stint.job j
      where $12::boolean and state = 'running' and lease_until >= ${least}
      order by lease_until
      limit $16::integer
    )
    union all
    (
      select ${live} from stint.job j
      where $13::boolean and state = 'parked' and park_reason >= stint.by_index((select ''))
      order by park_reason, run_at
      limit $16::integer
    )
    union all
    (
      select ${live} from stint.job j
      where $14::boolean and state in ('scheduled', 'retrying') and run_at >= ${least}
      order by run_at
      limit $16::integer
    )
    union all
    (
      select ${live} from stint.job j
      where $15::boolean and state = 'ready' and queue = stint.by_index((select $17::text))
      order by priority, run_at, id
      limit $16::integer
    )
  ), matched as (
    select * from gathered w where ${matching} and w.id < $8::uuid
  )`;

const gatherJobs = statement(
  "gather",
  `${few}, found as (
    select ${shown} from matched w order by w.id desc limit $18::integer
  )
  select (select count(*) from gathered)::integer as examined, found.*
  from (select) one
  left join found on true
  order by found.id desc`,
);

const countGathered = statement(
  "count-gather",
  `${few}
  select (select count(*) from gathered)::integer as examined, (select count(*) from matched)::integer as count`,
);

/** All matching jobs, from indexes with few jobs. Undefined: one of them has more than `most`, so the caller must walk. */
export async function gather(
  db: Run,
  search: Search,
  by: Few,
  { most, limit }: { most: number; limit: number },
): Promise<FoundJob[] | undefined> {
  const rows = await readMany(db, gatherJobs, [...fewValues(search, by, most), limit], (row) => ({
    found: toFoundOrNull(row),
    examined: number(row, "examined"),
  }));
  if ((rows[0]?.examined ?? 0) > most) return undefined;
  return rows.flatMap(({ found }) => found ?? []);
}

/** How many match, by the same indexes. */
export async function countGather(
  db: Run,
  search: Search,
  by: Few,
  { most }: { most: number },
): Promise<number | undefined> {
  return await readOne(db, countGathered, fewValues(search, by, most), (row) =>
    number(row, "examined") > most ? undefined : number(row, "count"),
  );
}

function fewValues(search: Search, by: Few, most: number): unknown[] {
  return [...values(search), by.key, by.running, by.parked, by.due, by.ready, most + 1, search.queue];
}

/** Null: no match, and the row has only the totals. */
function toFoundOrNull(row: Row): FoundJob | null {
  return row["id"] === null ? null : toFound(row);
}

function toFound(row: Row): FoundJob {
  const name = textOrNull(row, "error_name");
  return {
    ...toJobHead(row),
    error: name === null ? null : { name, message: textOrNull(row, "error_message") ?? "" },
  };
}
