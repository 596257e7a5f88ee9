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

const enqueueRows = statement(
  "enqueue",
  `
  select ordinal, id, created, hears
  from stint.enqueue_rows($1::text::jsonb, $2::boolean)
  order by ordinal`,
);

/** Write jobs, all of them or none. `notify` wakes workers when this transaction commits. */
export async function enqueue(db: Run, rows: readonly EncodedRow[], notify: boolean): Promise<EnqueuedRow[]> {
  const answer = await db.run(enqueueRows, [`[${rows.map(toJson).join(",")}]`, notify]);
  return answer as EnqueuedRow[];
}

// Payload and meta were encoded once, when they were checked; they go in as they are.
function toJson({ row, payload, meta }: EncodedRow): string {
  return `${JSON.stringify(row).slice(0, -1)},${meta === undefined ? "" : `"meta":${meta},`}"payload":${payload}}`;
}

const sendWake = statement(
  "wake",
  `select pg_notify(stint.wake_channel(), hint) from unnest($1::text[]) hint`,
);

/** Tell listening workers that there may be work. Only a hint: nothing depends on its arrival. */
export async function wake(db: Run, hints: readonly string[]): Promise<void> {
  await db.run(sendWake, [hints]);
}
