import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

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
  key?: string;
  tenant?: string;
  tags?: readonly string[];
  dedupe_key?: string;
  dedupe_until?: "started" | "finished";
  dedupe_ms?: number;
  /** This id may have been enqueued before: look for it among the finished ones, too. */
  again?: true;
};

/** A row and the two parts of it that are JSON text already. */
export type EncodedRow = { row: EnqueueRow; payload: string; meta: string | undefined };

export type EnqueuedRow = {
  ordinal: number;
  id: string;
  /** False: another job holds the dedupe key, and this is its id. */
  created: boolean;
  /** Whether some worker listens for wakes now. */
  hears: boolean;
};

// Every value goes in as text: no driver's ideas about arrays and JSON are met on the way.
const enqueueNew = statement(
  "enqueue-new",
  `
  select stint.enqueue_new(
    $1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::jsonb, $5::text::jsonb, $6::boolean
  ) as hears`,
);

const enqueueRows = statement(
  "enqueue",
  `
  select ordinal, id, created, hears
  from stint.enqueue_rows($1::text::jsonb, $2::boolean)
  order by ordinal`,
);

/** Write jobs, all of them or none. `notify` wakes workers when this transaction commits. */
export async function enqueue(db: Run, rows: readonly EncodedRow[], notify: boolean): Promise<EnqueuedRow[]> {
  if (rows.every(isNew)) {
    const [answer] = await db.run(enqueueNew, [...columnsOf(rows), notify]);
    const hears = answer?.["hears"] === true;
    return rows.map(({ row: { id } }, index) => ({ ordinal: index + 1, id, created: true, hears }));
  }
  const all = rows.map((encoded) => toJson(encoded, `,"payload":${encoded.payload}`)).join(",");
  return (await db.run(enqueueRows, [`[${all}]`, notify])) as EnqueuedRow[];
}

/** Whether it can meet no other job, so that it is certain to be created. */
function isNew({ row }: EncodedRow): boolean {
  return row.dedupe_key === undefined && row.again === undefined;
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
  const names = new Set(rows.map(nameOf));
  const needed = names.size === 1 ? [...names] : rows.map(nameOf);
  return `{${needed.map((name) => `"${name.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(",")}}`;
}

// Payload and meta were encoded once, when they were checked; they go in as they are.
function toJson({ row, meta }: EncodedRow, payload: string): string {
  return `${JSON.stringify(row).slice(0, -1)}${meta === undefined ? "" : `,"meta":${meta}`}${payload}}`;
}

// Nobody waits for a wake to reach the disk. Without this it would hold the lock that all notifying commits of the server
// share for as long as the disk takes.
const sendWake = statement(
  "wake",
  `
  select pg_notify(stint.wake_channel(), hint), set_config('synchronous_commit', 'off', true)
  from unnest($1::text[]) hint`,
);

/** Tell listening workers that there may be work. Only a hint: nothing depends on its arrival. */
export async function wake(db: Run, hints: readonly string[]): Promise<void> {
  await db.run(sendWake, [hints]);
}
