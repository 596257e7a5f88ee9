import type { Run, RunOptions } from "../db/db.ts";
import { numberOrNull, oneOf, readMany, readOne, text } from "../db/row.ts";
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

const takeOneShare = statement("take-share", `select stint.take_share($1, $2, $3, $4) as places`);

/**
 * Take a share of a limit: this many jobs of the worker may run under it without places of their own. Returns the number of them, from `least` to `most`.
 * Null: there is no such room now. A repeat returns the same.
 */
export async function takeShare(
  db: Run,
  worker: string,
  rule: string,
  { least, most }: { least: number; most: number },
  options?: RunOptions,
): Promise<number | null> {
  const values = [worker, rule, least, most];
  return await readOne(db, takeOneShare, values, (row) => numberOrNull(row, "places"), options);
}

const open = statement("open-shares", `select stint.open_shares($1) as shares`);

/** The limits of which the worker has an open share. These shares cover the jobs that the worker has claimed before this statement. */
export async function openShares(db: Run, worker: string, options?: RunOptions): Promise<readonly string[]> {
  return await readOne(db, open, [worker], (row) => JSON.parse(text(row, "shares")) as string[], options);
}

const leave = statement("leave-shares", `select stint.leave_shares($1)`);

/** Give up every share of a worker that ends. */
export async function leaveShares(db: Run, worker: string): Promise<void> {
  await db.run(leave, [worker]);
}
