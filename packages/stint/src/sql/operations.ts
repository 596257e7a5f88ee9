import type { Row, Run } from "../db/db.ts";
import {
  flag,
  json,
  number,
  oneOf,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";

export type OperationState = "running" | "finished" | "aborted" | "abandoned";

/** A row of `stint.operation`. */
export type StoredOperation = {
  readonly id: string;
  readonly action: "cancel" | "run-now" | "replay";
  readonly filter: Readonly<Record<string, unknown>>;
  readonly reason: string;
  readonly actor: string;
  readonly state: OperationState;
  readonly matched: number;
  readonly matchedCapped: boolean;
  readonly done: number;
  readonly skipped: number;
  readonly error: string | null;
  readonly createdAt: Date;
  readonly endedAt: Date | null;
  /** The operation acts on jobs that matched at this time. Full precision, for comparisons. */
  readonly asOf: string;
};

// A crashed process cannot record its end: the operation counts as ended after a time, by the database's clock.
const columns = `
  id, action, filter, reason, actor,
  case when state = 'running' and progressed_at < clock_timestamp() - interval '60 seconds' then 'abandoned' else state end as state,
  matched, matched_capped, done, skipped, error, created_at, ended_at, as_of::text as as_of`;

/** How many operations may run at once in an installation. */
export const mostOperations = 4;

const putOperation = statement(
  "begin-operation",
  `
  with old as (
    delete from stint.operation where created_at < clock_timestamp() - interval '90 days'
  )
  insert into stint.operation (id, action, filter, reason, actor, matched, matched_capped, cursor, as_of)
  select $1::uuid, $2::text, $3::text::jsonb, $4::text, $5::text, $6::integer, $7::boolean, $8::uuid,
    least(clock_timestamp(), $9::timestamptz)
  -- Each operation walks through the jobs and writes on the way. Two that start at the same instant may both be admitted.
  where (
    select count(*)
    from stint.operation o
    where o.state = 'running' and o.id <> $1 and o.progressed_at > clock_timestamp() - interval '60 seconds'
  ) < ${mostOperations}
    or exists (select from stint.operation o where o.id = $1)
  -- A repeat after a lost response: the same operation.
  on conflict (id) do update set progressed_at = clock_timestamp()
  returning ${columns}`,
);

export type NewOperation = Pick<
  StoredOperation,
  "id" | "action" | "filter" | "reason" | "actor" | "matched" | "matchedCapped"
> & {
  cursor: string;
  /** Null: now. */
  asOf: string | null;
};

/**
 * Record a new operation; undefined: too many run. Operations older than a quarter of a year are deleted; their actions stay in the audit.
 */
export async function beginOperation(db: Run, operation: NewOperation): Promise<StoredOperation | undefined> {
  const { id, action, filter, reason, actor, matched, matchedCapped, cursor, asOf } = operation;
  const values = [id, action, JSON.stringify(filter), reason, actor, matched, matchedCapped, cursor, asOf];
  return await readMaybe(db, putOperation, values, toOperation);
}

const noteProgress = statement(
  "operation-progress",
  `
  update stint.operation
  set done = done + $2, skipped = skipped + $3, cursor = coalesce($4::uuid, cursor), progressed_at = clock_timestamp()
  where id = $1 and state = 'running'
  returning abort_requested`,
);

/** Record progress. False: an abort was requested, or the operation is over. */
export async function progressOperation(
  db: Run,
  id: string,
  step: { done: number; skipped: number; cursor: string | null },
): Promise<boolean> {
  const [row] = await db.run(noteProgress, [id, step.done, step.skipped, step.cursor]);
  return row?.["abort_requested"] === false;
}

const endOne = statement(
  "end-operation",
  `
  update stint.operation
  set state = $2, error = $3, ended_at = clock_timestamp(), progressed_at = clock_timestamp()
  where id = $1 and state = 'running'`,
);

export async function endOperation(
  db: Run,
  id: string,
  state: Exclude<OperationState, "running">,
  error: string | null = null,
): Promise<void> {
  await db.run(endOne, [id, state, error]);
}

// If its process has crashed, no process would act on the request.
const requestEnd = statement(
  "abort-operation",
  `
  update stint.operation
  set abort_requested = true,
      state = case when progressed_at < clock_timestamp() - interval '60 seconds' then 'aborted' else state end,
      ended_at = case when progressed_at < clock_timestamp() - interval '60 seconds' then clock_timestamp() end
  where id = $1 and state = 'running'`,
);

export async function abortOperation(db: Run, id: string): Promise<void> {
  await db.run(requestEnd, [id]);
}

const selectNow = statement(
  "now",
  `select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as now`,
);

/** The database's time with full precision. */
export async function databaseNow(db: Run): Promise<string> {
  return await readOne(db, selectNow, [], (row) => text(row, "now"));
}

const selectOperation = statement("operation", `select ${columns} from stint.operation where id = $1`);

export async function findOperation(db: Run, id: string): Promise<StoredOperation | undefined> {
  return await readMaybe(db, selectOperation, [id], toOperation);
}

const selectOperations = statement(
  "operations",
  `select ${columns} from stint.operation order by operation.created_at desc, operation.id desc limit 100`,
);

/** The latest hundred, newest first. */
export async function latestOperations(db: Run): Promise<StoredOperation[]> {
  return await readMany(db, selectOperations, [], toOperation);
}

const readAction = oneOf(["cancel", "run-now", "replay"]);
const readState = oneOf(["running", "finished", "aborted", "abandoned"]);

function toOperation(row: Row): StoredOperation {
  return {
    id: text(row, "id"),
    action: readAction(row, "action"),
    filter: json<Record<string, unknown>>(row, "filter"),
    reason: text(row, "reason"),
    actor: text(row, "actor"),
    state: readState(row, "state"),
    matched: number(row, "matched"),
    matchedCapped: flag(row, "matched_capped"),
    done: number(row, "done"),
    skipped: number(row, "skipped"),
    error: textOrNull(row, "error"),
    createdAt: time(row, "created_at"),
    endedAt: timeOrNull(row, "ended_at"),
    asOf: text(row, "as_of"),
  };
}
