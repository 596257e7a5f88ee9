import type { EncodedRow } from "../sql/enqueue.ts";

/** What one statement may carry. Postgres refuses a jsonb array of 256 MB, and a huge statement outlasts its deadline. */
export const largestBatch = 500;
export const heaviestBatch = 8_388_608;

/** How much a row adds to a statement, nearly: what is not counted is short. */
export function weigh(row: EncodedRow): number {
  return row.payload.length + (row.meta?.length ?? 0);
}

/** Rows in the order they came, cut into statements. */
export function inBatches(rows: readonly EncodedRow[], most: number): EncodedRow[][] {
  const batches: EncodedRow[][] = [];
  let batch: EncodedRow[] = [];
  let weight = 0;
  for (const row of rows) {
    const own = weigh(row);
    if (batch.length === most || (batch.length > 0 && weight + own > heaviestBatch)) {
      batches.push(batch);
      batch = [];
      weight = 0;
    }
    batch.push(row);
    weight += own;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}

/**
 * Rows in the order in which the database takes the locks of one statement: kind, dedupe key, id. Rows without a key
 * wait for nobody and keep the order they came in.
 */
export function inLockOrder<R extends EncodedRow>(rows: readonly R[]): readonly R[] {
  if (rows.every(({ row }) => row.dedupe_key === undefined && row.again === undefined)) return rows;
  return rows
    .map((value) => ({ value, key: lockKey(value) }))
    .sort((a, b) => Buffer.compare(a.key, b.key))
    .map(({ value }) => value);
}

/** By bytes, as the database compares with collation "C". No part can contain the NUL that ends it; no key comes last. */
function lockKey({ row }: EncodedRow): Buffer {
  const key = row.dedupe_key === undefined ? "1" : `0${row.dedupe_key}`;
  return Buffer.from(`${row.kind}\0${key}\0${row.id}`);
}
