import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

/** How many jobs of a kind came to a queue. */
export type Arrivals = { readonly queue: string; readonly kind: string; readonly count: number };

const selectArrivals = statement(
  "arrivals",
  `select queue, kind, arrived::float8 as count from stint.arrivals order by queue, kind`,
);

/** Enqueued or replayed, as long as the tallies know of it: nothing is counted. */
export async function arrivals(db: Run): Promise<Arrivals[]> {
  return (await db.run(selectArrivals, [])) as Arrivals[];
}
