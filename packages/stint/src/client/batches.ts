import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";

/** What one statement may carry. Postgres refuses a jsonb array of 256 MB, and a huge statement outlasts its deadline. */
export const largestBatch = 500;
/** What one statement of many jobs that belong together may carry. */
export const largestStatement = 2_000;
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
 * Rows as statements of one transaction, and their answers in the order of the rows. Each statement puts its own rows in
 * order; keys of several must be in order as a whole: two transactions that take the same keys in opposite order would
 * deadlock.
 */
export function inStatements(rows: readonly EncodedRow[]): {
  batches: EncodedRow[][];
  inGivenOrder: (answers: readonly (readonly EnqueuedRow[])[]) => EnqueuedRow[];
} {
  const sorted = inLockOrder(rows.map((row, index) => ({ ...row, ordinal: index + 1 })));
  const batches = inBatches(sorted, largestStatement);
  return {
    batches,
    inGivenOrder(answers) {
      let before = 0;
      const all = answers.flatMap((own, batch) => {
        const moved = own.map((answer) => ({
          ...answer,
          ordinal: sorted[before + answer.ordinal - 1]?.ordinal ?? 0,
        }));
        before += batches[batch]?.length ?? 0;
        return moved;
      });
      return all.sort((a, b) => a.ordinal - b.ordinal);
    },
  };
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
