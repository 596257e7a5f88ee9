import type { Row, Run } from "../db/db.ts";
import { flag, number, numberOrNull, oneOf, readMany, text, time, timeOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import type { StepType } from "../model/steps.ts";
import { fenced, fenceValues, held } from "./fences.ts";

// What a handler remembers of its finished parts. `suspend.ts` writes those that have not ended.

/** A finished step, to be remembered. */
export type StepWrite = {
  readonly fence: Fence;
  readonly seq: number;
  readonly name: string;
  /** JSON text. */
  readonly result: string | null;
  readonly tookMs: number;
};

/** `locked`: another session has the row of its job at this moment. `clash`: another attempt has remembered a step of this name. */
export type StepWritten = "written" | "locked" | "lost" | "clash";

// A repeat of a send that did take effect finds its own rows.
const writeSteps = statement(
  "write-steps",
  `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::integer[]), (select $5::text[]),
        (select $6::text[]), (select $7::bigint[])
      ) with ordinality as m (id, epoch, lease_id, seq, name, result, took_ms, ordinal)
  ), ${held}, written as (
    insert into stint.step (job_id, seq, name, type, result, took_ms, epoch)
    select m.id, m.seq, m.name, 'step', m.result::jsonb, m.took_ms, m.epoch
    from mine m
    join held on held.ordinal = m.ordinal
    on conflict (job_id, name) do nothing
    returning job_id, name
  )
  select
    m.ordinal,
    case
      when held.ordinal is null then case when j.id is null then 'lost' else 'locked' end
      when exists (select from stint.step s where s.job_id = m.id and s.name = m.name and (s.epoch, s.seq) <> (m.epoch, m.seq)) then 'clash'
      else 'written'
    end as status
  from mine m
  left join held on held.ordinal = m.ordinal
  left join stint.job j on ${fenced}
  order by m.ordinal`,
);

const readStatus = oneOf<StepWritten>(["written", "locked", "lost", "clash"]);

/** Remember finished steps of running jobs, each only if its fence still holds. Returns one status for each, in order. */
export async function writeStepResults(db: Run, steps: readonly StepWrite[]): Promise<StepWritten[]> {
  const values = [
    ...fenceValues(steps.map(({ fence }) => fence)),
    steps.map(({ seq }) => seq),
    steps.map(({ name }) => name),
    steps.map(({ result }) => result),
    steps.map(({ tookMs }) => Math.round(tookMs)),
  ];
  return await readMany(db, writeSteps, values, (row) => readStatus(row, "status"));
}

/** A remembered step, as the next attempt reads it. */
export type StepRecord = {
  readonly seq: number;
  readonly name: string;
  readonly type: StepType;
  readonly isPending: boolean;
  /** Whether the time of a sleep has not come yet, by the database's clock. */
  readonly isAsleep: boolean;
  /** False: a wait that timed out, or that has not ended. */
  readonly isReceived: boolean;
  /** Too large to be read with the others; `stepResult` reads it. */
  readonly isLarge: boolean;
  /** Undefined: the step returned nothing, or a large result. */
  readonly result: unknown;
};

/** Results larger than this are read one by one, when the handler comes to them. */
const largestReadAhead = 8_192;

const readSteps = statement(
  "steps",
  `
  select
    seq, name, type, is_pending, signal_id is not null as is_received,
    coalesce(is_pending and type = 'sleep' and until > clock_timestamp(), false) as is_asleep,
    case when pg_column_size(result) <= ${largestReadAhead} then result end as result,
    coalesce(pg_column_size(result) > ${largestReadAhead}, false) as is_large, result is null as is_void
  from stint.step
  where job_id = $1
  order by seq`,
);

const stepTypeOf = oneOf<StepType>(["step", "sleep", "signal"]);

/** Every step that the job remembers, in the order of its handler. */
export async function rememberedSteps(db: Run, jobId: string): Promise<StepRecord[]> {
  return await readMany(db, readSteps, [jobId], (row) => ({
    seq: number(row, "seq"),
    name: text(row, "name"),
    type: stepTypeOf(row, "type"),
    isPending: flag(row, "is_pending"),
    isAsleep: flag(row, "is_asleep"),
    isReceived: flag(row, "is_received"),
    isLarge: flag(row, "is_large"),
    result: flag(row, "is_void") ? undefined : (row["result"] ?? null),
  }));
}

const readResult = statement("step-result", `select result from stint.step where job_id = $1 and name = $2`);

export async function stepResult(db: Run, jobId: string, name: string): Promise<unknown> {
  const rows = await db.run(readResult, [jobId, name]);
  return rows[0]?.["result"] ?? null;
}

/** A step as people see it. */
export type StepView = {
  readonly seq: number;
  readonly name: string;
  readonly type: StepType;
  /** `done`, or for sleeps and signals also `waiting` and `timed-out`. */
  readonly state: "done" | "waiting" | "timed-out";
  readonly at: Date;
  readonly tookMs: number | null;
  readonly until: Date | null;
  readonly epoch: number;
  readonly result: unknown;
};

const listSteps = statement(
  "list-steps",
  `
  select seq, name, type, signal_id is not null as is_received, at, took_ms::float8, until, epoch,
    is_pending and (type <> 'sleep' or until > clock_timestamp()) as is_pending,
    case when pg_column_size(result) <= ${largestReadAhead} then result end as result
  from stint.step
  where job_id = $1
  order by seq desc
  limit $2`,
);

/** The latest steps of a job, oldest first. Results that are too large to show are null. */
export async function stepsOf(db: Run, jobId: string, limit: number): Promise<StepView[]> {
  return (await readMany(db, listSteps, [jobId, limit], toView)).toReversed();
}

function toView(row: Row): StepView {
  const type = stepTypeOf(row, "type");
  const isOverdue = type === "signal" && !flag(row, "is_received");
  return {
    seq: number(row, "seq"),
    name: text(row, "name"),
    type,
    state: flag(row, "is_pending") ? "waiting" : isOverdue ? "timed-out" : "done",
    at: time(row, "at"),
    tookMs: numberOrNull(row, "took_ms"),
    until: timeOrNull(row, "until"),
    epoch: number(row, "epoch"),
    result: row["result"] ?? null,
  };
}
