import type { Run } from "../db/db.ts";
import { matchesPattern } from "../model/name-pattern.ts";
import { depths } from "../sql/depth.ts";
import type { Search } from "../sql/search.ts";
import { isWhole } from "./filter.ts";
import { depthStates, type Count, type Depth } from "./types.ts";
import { countFew, countUpTo, type Budget } from "./bounded-search.ts";

type Tallied = keyof Depth;

const isTallied = (state: Search["states"][number]): state is Tallied =>
  (depthStates as readonly string[]).includes(state);

/** The number of jobs of the kind and queue in these states, from the tallies: exact, without a search. */
async function sumOf(db: Run, { kind, queue }: Search, states: readonly Tallied[]): Promise<number> {
  const rows = (await depths(db)).filter(
    (row) =>
      (kind === null || matchesPattern(kind, row.kind)) &&
      (queue === null || matchesPattern(queue, row.queue)),
  );
  return rows.reduce((sum, row) => sum + states.reduce((own, state) => own + row[state], 0), 0);
}

/**
 * The largest number of jobs that a search can find, from the tallies. Undefined: the search includes states that are not tallied. A
 * search that found this many is complete, even if its budget left rows unread.
 */
export async function mostFound(db: Run, search: Search): Promise<number | undefined> {
  const states = search.states.filter(isTallied);
  return states.length < search.states.length ? undefined : await sumOf(db, search, states);
}

/**
 * Count matching jobs. A filter of states, kind and queue only is counted from the tallies; other filters are counted by a search, up to
 * its budget. `next` continues the search, and tallied states are not counted again.
 */
export async function countMatches(db: Run, search: Search, after?: string, budget?: Budget): Promise<Count> {
  const below = after === undefined ? search : { ...search, before: after };
  if (!isWhole(search)) return await countUpTo(db, below, budget);
  const few = await countFew(db, below);
  if (few !== undefined) return { count: few, capped: false };
  const known = search.states.filter(isTallied);
  const others = search.states.filter((state) => !isTallied(state));
  const tallied = after === undefined && known.length > 0 ? await sumOf(db, search, known) : 0;
  if (others.length === 0) {
    if (tallied > 0 || after !== undefined) return { count: tallied, capped: false };
    // Rows written by hand are in no tally until a recount. If the tallies report none, a look at the newest jobs is cheap.
    const seen = await countUpTo(db, below, budget);
    return seen.count > 0 ? seen : { count: 0, capped: false };
  }
  const counted = await countUpTo(db, { ...below, states: others }, budget);
  return { ...counted, count: tallied + counted.count };
}
