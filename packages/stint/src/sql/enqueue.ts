import type { Row, Run } from "../db/db.ts";
import { arrayElement } from "../db/array-element.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { statement, type Statement } from "../db/statement.ts";
import type { EnqueueStatus } from "../model/enqueue-status.ts";
import { isInside, type InsideStatement } from "./inside.ts";

/** One checked row for `stint.enqueue_rows`. Fields left out take the table's defaults. */
export type EnqueueRow = {
  id: string;
  kind: string;
  queue: string;
  priority?: number;
  run_at?: string;
  delay_ms?: number;
  max_attempts?: number;
  max_crashes?: number;
  timeout_ms?: number;
  lease_ms?: number;
  /** When the job expires, or in how many milliseconds. */
  expires_at?: string;
  expires_ms?: number;
  key?: string;
  tenant?: string;
  tags?: readonly string[];
  dedupe_key?: string;
  dedupe_until?: "started" | "finished";
  dedupe_ms?: number;
  /** What of the waiting job with this dedupe key this enqueue replaces. Not with `dedupe_ms`. */
  replace?: "payload" | "run_at" | "both";
  /** A replaced run time moves no further than this from the first enqueue. */
  max_wait_ms?: number;
  /** This id may have been enqueued before: look for it among the finished ones, too. */
  again?: true;
  member?: Member;
  /** The keys of its limits that come from its payload, its ordered key first. Empty: its kind has limits. */
  limits?: readonly string[];
  /** Its ordered key. */
  order?: string;
};

/** How a job is part of a flow. Fields left out have no meaning for it. */
export type Member = {
  flow?: { id: string; name?: string; compensates?: true };
  /** In the declaration of its flow. */
  name?: string;
  /** The jobs it waits for. */
  after?: readonly string[];
  on_failure?: OnFailure;
  /** More jobs may be added to those it waits for. */
  open?: true;
  /** The job that undoes it, in the form that `stint.enqueue_row` takes. */
  compensate?: unknown;
};

/** What happens to a job if one that it waits for dies or is cancelled. */
export type OnFailure = "park" | "cancel" | "run";

/** A row and the two parts of it that are JSON text already. */
export type EncodedRow = {
  row: EnqueueRow;
  payload: string;
  meta: string | undefined;
};

export type EnqueuedRow = {
  ordinal: number;
  id: string;
  /** Whether the status is `created`. */
  created: boolean;
  status: EnqueueStatus;
  /** Whether some worker listens for wakes now. */
  listening: boolean;
};

// The functions of migrations 0003 to 0005 decide whether a row is a duplicate. Every value goes in as text: no driver's ideas about arrays and JSON are
// met on the way.
const enqueueNew = statement(
  "enqueue-new",
  `
  select stint.enqueue_new(
    $1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::jsonb, $5::text::jsonb, $6::boolean, $7::timestamptz
  ) as listening`,
);

const enqueueRows = statement(
  "enqueue",
  `
  select ordinal, id, created, listening, status
  from stint.enqueue_rows($1::text::jsonb, $2::boolean, $3::timestamptz, $4::timestamptz)
  order by ordinal`,
);

const enqueueNewInside = statement(
  "enqueue-new-inside",
  `
  select case when ${isInside("$7")} then stint.enqueue_new(
    $1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::jsonb, $5::text::jsonb, $6::boolean
  ) end as listening`,
);

const enqueueRowsInside = statement(
  "enqueue-inside",
  `
  select ordinal, id, created, listening, status
  from stint.enqueue_rows(case when ${isInside("$3")} then $1::text::jsonb else '[]' end, $2::boolean)
  order by ordinal`,
);

/** Whether to wake workers when this transaction commits. Undefined: unless a NOTIFY could fail a PREPARE TRANSACTION. */
export type Notify = boolean | undefined;

/** When a send may take effect, by the database's clock in milliseconds. Left out: at any time. */
export type SendTimes = {
  /** Not after its deadline: nothing is written then, and the statement fails. */
  until?: number | undefined;
  /** Only after the deadlines of earlier sends of the same rows: what they wrote can be seen then, and they can write no more. */
  after?: number | undefined;
};

/** Write jobs, all of them or none. */
export async function enqueue(
  db: Run,
  rows: readonly EncodedRow[],
  notify: boolean,
  times: SendTimes = {},
): Promise<EnqueuedRow[]> {
  const { statement: sent, values, read } = enqueueStatement(rows, notify, times);
  return read(await db.run(sent, values));
}

/** The statement that writes these rows, and how to read its result. */
export type EnqueueStatement = {
  readonly statement: Statement;
  readonly values: readonly unknown[];
  readonly read: (result: readonly Row[]) => EnqueuedRow[];
};

export function enqueueStatement(
  rows: readonly EncodedRow[],
  notify: Notify,
  { until, after }: SendTimes = {},
): EnqueueStatement {
  if (!rows.every(isNew)) {
    const read = (result: readonly Row[]): EnqueuedRow[] => result as EnqueuedRow[];
    const values = [toArray(rows), notify ?? null, orNull(until), orNull(after)];
    return { statement: enqueueRows, values, read };
  }
  const read = ([row]: readonly Row[]): EnqueuedRow[] => allNew(rows, row?.["listening"] === true);
  return { statement: enqueueNew, values: [...columnsOf(rows), notify ?? null, orNull(until)], read };
}

function orNull(serverMs: number | undefined): string | null {
  return serverMs === undefined ? null : toTimestamp(serverMs);
}

/**
 * The same, which writes only in the transaction `xid`; without one, only in a transaction that `noteTransaction` has
 * marked. In any other it writes nothing and fails nothing, and `read` returns undefined.
 */
export function enqueueStatementInside(
  rows: readonly EncodedRow[],
  notify: Notify,
  xid: string | undefined,
): InsideStatement<EnqueuedRow[]> {
  if (!rows.every(isNew)) {
    const read = (result: readonly Row[]): EnqueuedRow[] | undefined =>
      result.length === 0 ? undefined : (result as EnqueuedRow[]);
    return { statement: enqueueRowsInside, values: [toArray(rows), notify ?? null, xid ?? null], read };
  }
  const read = ([row]: readonly Row[]): EnqueuedRow[] | undefined =>
    row?.["listening"] == null ? undefined : allNew(rows, row["listening"] === true);
  return { statement: enqueueNewInside, values: [...columnsOf(rows), notify ?? null, xid ?? null], read };
}

function toArray(rows: readonly EncodedRow[]): string {
  return `[${rows.map(withPayload).join(",")}]`;
}

/** JSON text in the form that `stint.enqueue_row` takes. */
export function withPayload(encoded: EncodedRow): string {
  return toJson(encoded, `,"payload":${encoded.payload}`);
}

function allNew(rows: readonly EncodedRow[], listening: boolean): EnqueuedRow[] {
  return rows.map(({ row: { id } }, index) => ({
    ordinal: index + 1,
    id,
    created: true,
    status: "created",
    listening,
  }));
}

/** Whether it can meet no other job, so that it is certain to be created, and belongs to no flow and no order. */
function isNew({ row }: EncodedRow): boolean {
  return (
    row.dedupe_key === undefined &&
    row.again === undefined &&
    row.member === undefined &&
    row.order === undefined
  );
}

/** Ids, kinds, queues, payloads, and the whole of those rows that have more than these; all as Postgres reads them. */
function columnsOf(rows: readonly EncodedRow[]): (string | null)[] {
  let ids = "";
  let payloads = "";
  let more = "";
  let anyMore = false;
  for (const encoded of rows) {
    const comma = ids === "" ? "" : ",";
    ids += comma + encoded.row.id;
    payloads += comma + encoded.payload;
    const isBare = encoded.meta === undefined && Object.keys(encoded.row).length === bareFields;
    more += comma + (isBare ? "null" : toJson(encoded, ""));
    anyMore ||= !isBare;
  }
  const kinds = namesOf(rows, ({ row }) => row.kind);
  const queues = namesOf(rows, ({ row }) => row.queue);
  return [`{${ids}}`, kinds, queues, `[${payloads}]`, anyMore ? `[${more}]` : null];
}

/** Id, kind and queue. */
const bareFields = 3;

/** The names of all rows; only one, where they are all the same. */
function namesOf(rows: readonly EncodedRow[], nameOf: (row: EncodedRow) => string): string {
  const [first] = rows;
  const areAlike = first !== undefined && rows.every((row) => nameOf(row) === nameOf(first));
  return `{${areAlike ? arrayElement(nameOf(first)) : rows.map((row) => arrayElement(nameOf(row))).join(",")}}`;
}

// Payload and meta were encoded once, when they were checked; they go in as they are.
function toJson({ row, meta }: EncodedRow, payload: string): string {
  return `${JSON.stringify(row).slice(0, -1)}${meta === undefined ? "" : `,"meta":${meta}`}${payload}}`;
}
