import type { Run } from "../db/db.ts";
import { columns, number, readMany, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** How many jobs of a kind arrived in a queue. */
export type Arrivals = { readonly queue: string; readonly kind: string; readonly count: number };

const selectArrivals = statement(
  "arrivals",
  `select queue, kind, arrived::float8 as count from stint.arrivals order by queue, kind`,
);

const toArrivals = columns<Arrivals>({ queue: text, kind: text, count: number });

/** Jobs enqueued or replayed, read from the tallies without counting. */
export async function arrivals(db: Run): Promise<Arrivals[]> {
  return await readMany(db, selectArrivals, [], toArrivals);
}
