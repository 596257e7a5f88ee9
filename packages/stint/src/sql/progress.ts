import type { Run } from "../db/db.ts";
import {
  json,
  number,
  numberOrNull,
  oneOf,
  orNull,
  readMany,
  readMaybe,
  textOrNull,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { mostLogLines, type LogLine } from "../model/progress.ts";
import { fenced, fenceValues, held } from "./fences.ts";

/** What a running handler reports. Null: nothing new. */
export type ProgressWrite = {
  readonly fence: Fence;
  readonly fraction: number | null;
  readonly note: string | null;
  /** JSON text. */
  readonly checkpoint: string | null;
  /** Log lines since the last write, oldest first. */
  readonly lines: readonly LogLine[];
};

/** `locked`: another session has the row of its job at this moment. */
export type ProgressWritten = "written" | "locked" | "lost";

// The database puts its own time on a line: clocks of workers differ.
const writeProgress = statement(
  "write-progress",
  `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::real[]), (select $5::text[]),
        (select $6::text[]), (select $7::text[])
      ) with ordinality as m (id, epoch, lease_id, fraction, note, checkpoint, lines, ordinal)
  ), ${held}, written as (
    insert into stint.progress as p (job_id, fraction, note, checkpoint, checkpoint_at, lines, line_count, at)
    select
      m.id, m.fraction, m.note, m.checkpoint::jsonb, case when m.checkpoint is not null then clock_timestamp() end,
      (
        select jsonb_agg(jsonb_build_object(
          'at', clock_timestamp() - (line ->> 'agoMs')::float8 * interval '1 millisecond', 'epoch', m.epoch, 'text', line -> 'text') order by n)
        from jsonb_array_elements(m.lines::jsonb) with ordinality as l (line, n)
      ),
      coalesce(jsonb_array_length(m.lines::jsonb), 0), clock_timestamp()
    from mine m
    join held on held.ordinal = m.ordinal
    on conflict (job_id) do update
      set fraction = coalesce(excluded.fraction, p.fraction),
          note = case when excluded.fraction is null then p.note else excluded.note end,
          checkpoint = coalesce(excluded.checkpoint, p.checkpoint),
          checkpoint_at = coalesce(excluded.checkpoint_at, p.checkpoint_at),
          lines = case when excluded.lines is null then p.lines else (
            select jsonb_agg(line order by n)
            from (
              select line, n
              from jsonb_array_elements(coalesce(p.lines, '[]') || excluded.lines) with ordinality as l (line, n)
              order by n desc
              limit ${mostLogLines}
            ) latest
          ) end,
          line_count = p.line_count + excluded.line_count,
          at = excluded.at
    returning 1
  )
  select
    case when held.ordinal is not null then 'written' when j.id is null then 'lost' else 'locked' end as status
  from mine m
  left join held on held.ordinal = m.ordinal
  left join stint.job j on ${fenced}
  order by m.ordinal`,
);

const readStatus = oneOf<ProgressWritten>(["written", "locked", "lost"]);

/** Store what handlers report, each only if its fence still holds; at most one write per job. Returns one status for each, in order. */
export async function writeReports(db: Run, reports: readonly ProgressWrite[]): Promise<ProgressWritten[]> {
  const now = performance.now();
  const linesOf = ({ lines }: ProgressWrite): string | null =>
    lines.length === 0
      ? null
      : JSON.stringify(lines.map(({ text, loggedAt }) => ({ text, agoMs: Math.max(0, now - loggedAt) })));
  const values = [
    ...fenceValues(reports.map(({ fence }) => fence)),
    reports.map(({ fraction }) => fraction),
    reports.map(({ note }) => note),
    reports.map(({ checkpoint }) => checkpoint),
    reports.map(linesOf),
  ];
  return await readMany(db, writeProgress, values, (row) => readStatus(row, "status"));
}

const readCheckpoint = statement(
  "checkpoint",
  `select checkpoint is not null as is_set, checkpoint from stint.progress where job_id = $1`,
);

/** The last checkpoint of the job; undefined if it has none. */
export async function lastCheckpoint(db: Run, jobId: string): Promise<unknown> {
  const [row] = await db.run(readCheckpoint, [jobId]);
  return row?.["is_set"] === true ? (row["checkpoint"] ?? null) : undefined;
}

/** What the handler of a job has reported, as people see it. */
export type ProgressView = {
  /** From 0 to 1. */
  readonly fraction: number | null;
  readonly note: string | null;
  readonly checkpoint: unknown;
  readonly checkpointAt: Date | null;
  /** The latest log lines, oldest first. */
  readonly lines: readonly { readonly at: Date; readonly epoch: number; readonly text: string }[];
  /** How many lines were logged in all. */
  readonly lineCount: number;
  /** Of the last report. */
  readonly at: Date;
};

const readProgress = statement(
  "progress",
  `
  select
    fraction::float8, note, case when pg_column_size(checkpoint) <= 8192 then checkpoint end as checkpoint, checkpoint_at, lines,
    line_count::float8, at
  from stint.progress
  where job_id = $1`,
);

const linesOrNull = orNull(json<{ at: string; epoch: number; text: string }[]>);

export async function progressOf(db: Run, jobId: string): Promise<ProgressView | undefined> {
  return await readMaybe(db, readProgress, [jobId], (row) => {
    const fraction = numberOrNull(row, "fraction");
    return {
      // A real has seven digits.
      fraction: fraction === null ? null : Math.round(fraction * 1e6) / 1e6,
      note: textOrNull(row, "note"),
      checkpoint: row["checkpoint"] ?? null,
      checkpointAt: timeOrNull(row, "checkpoint_at"),
      lines: (linesOrNull(row, "lines") ?? []).map(({ at, epoch, text }) => ({
        at: new Date(at),
        epoch,
        text,
      })),
      lineCount: number(row, "line_count"),
      at: time(row, "at"),
    };
  });
}
