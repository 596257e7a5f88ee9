import type { Run, RunOptions } from "../db/db.ts";
import { oneOf, readMany, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { fenceValues } from "./fences.ts";

const takePlaces = statement(
  "take-places",
  `
  select id, outcome
  from stint.take_places($1::uuid[], $2::bigint[], $3::uuid[])`,
);

const readOutcome = oneOf(["taken", "waits", "lost"]);

/** `waits`: a limit is full, and the job is parked until it has a place. `lost`: the fence no longer holds. */
export type Placed = ReturnType<typeof readOutcome>;

/**
 * Take the places of jobs that were claimed and have not begun: all places of a job, or none. A job without them is parked; nothing is spent.
 * Returns the outcome by the id of the job. A repeat returns the same.
 */
export async function placesFor(
  db: Run,
  fences: readonly Fence[],
  options?: RunOptions,
): Promise<ReadonlyMap<string, Placed>> {
  const rows = await readMany(
    db,
    takePlaces,
    fenceValues(fences),
    (row) => [text(row, "id"), readOutcome(row, "outcome")] as const,
    options,
  );
  return new Map(rows);
}
