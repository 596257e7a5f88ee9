import type { Row, Run } from "../db/db.ts";
import { number, readMany, readOne, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { toLike } from "../model/name-pattern.ts";
import type { JobState } from "../model/state.ts";
import { commonIn, fingerprintOf, lastError, whyDied } from "./error-fingerprint.ts";
import { listedColumns, select } from "./job-columns.ts";
import { toJobHead, type JobHead } from "./rows.ts";

/**
 * Which jobs are looked for. Ids of jobs are in the order of their time, so a span of time is a span of ids: all that
 * follows reads the newest first, by the primary keys, and needs no index of its own.
 */
export type Search = {
  readonly states: readonly JobState[];
  /** A kind, or a pattern for kinds. No index is by kind, so a pattern costs what a name does. */
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
 * A window: so many of the newest jobs below an id, whatever they are. What does not match is thrown away afterwards, so
 * that the price of a window is known before. `$11` to `$13` say whether live jobs are
 * wanted, those that are done, and the dead.
 */
const window = `
  with walked as materialized (
    select *
    from stint.newest_between($8::uuid, $9::uuid, $11::boolean, $12::boolean, $13::boolean, $14::integer)
  ), reached as (
    -- The last of a full window. None: everything in between was looked at.
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

/** One window of a walk. `reached`: go on below this id; null when there is nothing left in it. */
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

/** Where few jobs lie in an index they are better gathered from there than looked for among all. */
export type Few = { key: boolean; running: boolean; parked: boolean; due: boolean; ready: boolean };

// In the order of the index and above the least there is, so that none but the index can be the cheapest way to the first
// few. Each is read up to one more than the limit: then there are too many to gather.
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

/** All that match, by indexes that hold few jobs. Undefined: one of them holds more than `most`, so walk. */
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

/** Null: the window or the indexes hold no match, and the row only has the totals. */
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
