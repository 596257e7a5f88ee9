import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";

/** Limits of one statement. Postgres refuses a jsonb array of 256 MB, and a huge statement exceeds its deadline. */
export const largestBatch = 500;
/** Limits of one statement of `enqueueMany`. */
export const largestStatement = 2_000;
export const heaviestBatch = 8_388_608;

/** The approximate bytes a row adds to a statement; the uncounted parts are short. */
export function weigh(row: EncodedRow): number {
  return row.payload.length + (row.meta?.length ?? 0);
}

/** Split rows into statements, in their order. */
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
 * Enqueue rows by several statements of one transaction. Returns the results in the order of the rows. Each statement sorts
 * its own rows; the keys of all statements must be sorted as a whole, because two transactions that lock the same keys in
 * opposite order deadlock.
 */
export function inStatements(rows: readonly EncodedRow[]): {
  batches: EncodedRow[][];
  inGivenOrder: (results: readonly (readonly EnqueuedRow[])[]) => EnqueuedRow[];
} {
  const sorted = inLockOrder(rows.map((row, index) => ({ ...row, ordinal: index + 1 })));
  const batches = inBatches(sorted, largestStatement);
  return {
    batches,
    inGivenOrder(results) {
      let before = 0;
      const all = results.flatMap((own, batch) => {
        const moved = own.map((result) => ({
          ...result,
          ordinal: sorted[before + result.ordinal - 1]?.ordinal ?? 0,
        }));
        before += batches[batch]?.length ?? 0;
        return moved;
      });
      return all.sort((a, b) => a.ordinal - b.ordinal);
    },
  };
}

/**
 * Sort rows in the order in which the database takes the locks of one statement: kind, dedupe key, id. Rows without a key
 * take no such lock and keep their order. So do those of a flow: a job is written after the jobs that it waits for.
 */
export function inLockOrder<R extends EncodedRow>(rows: readonly R[]): readonly R[] {
  const keepsPlace = ({ row }: R): boolean =>
    row.dedupe_key === undefined && (row.again === undefined || row.member !== undefined);
  if (rows.every(keepsPlace)) return rows;
  return rows
    .map((value) => ({ value, key: lockKey(value) }))
    .sort((a, b) => Buffer.compare(a.key, b.key))
    .map(({ value }) => value);
}

/** By bytes, as the database compares with collation "C". No part can contain the NUL that terminates it; rows without a key sort last. */
function lockKey({ row }: EncodedRow): Buffer {
  const key = row.dedupe_key === undefined ? "1" : `0${row.dedupe_key}`;
  return Buffer.from(`${row.kind}\0${key}\0${row.id}`);
}
