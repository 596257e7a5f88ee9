import type { Run } from "../db/db.ts";
import { isPattern } from "../model/name-pattern.ts";
import { countGather, countWalk, gather, walk, type Few, type FoundJob, type Search } from "../sql/search.ts";
import { firstIdAt, timeOf } from "./filter.ts";
import type { Count, JobPage } from "./types.ts";

/** The cost limit of one search. At the limit the caller gets the matches so far, and where to continue. */
export type Budget = {
  /** Jobs examined. */
  readonly rows: number;
  /** Time spent in windows, checked between two of them. The round trip is not counted, up to `mostTimes`. */
  readonly ms: number;
};

const usual: Budget = { rows: 200_000, ms: 500 };
/** With slow round trips the whole search may take this multiple of its time budget. */
const mostTimes = 4;
const mostCounted = 10_000;
const mostGathered = 10_000;
const spans = { firstMs: 10_000, leastMs: 100, mostMs: 30 * 86_400_000, growth: 32 };
const windows = { first: 1_000, least: 500, most: 20_000, growth: 4, aimMs: 100 };

/** `searched`: jobs examined for a partial page. */
export type FoundPage = Omit<JobPage, "progress"> & { readonly searched?: number };

/** A page of matching jobs, newest first. */
export async function findPage(db: Run, search: Search, limit: number, budget = usual): Promise<FoundPage> {
  const by = fewBy(search);
  if (by !== undefined) {
    const found = await gather(db, search, by, { most: mostGathered, limit: limit + 1 });
    if (found !== undefined) return toPage(found, limit, null);
  }

  const found: FoundJob[] = [];
  const steps = stepsOf(search, budget, Math.max(limit + 1, windows.first));
  for (let step = steps.next(); step !== undefined; step = steps.next()) {
    const wanted = limit + 1 - found.length;
    const window = await walk(db, step.search, { rows: step.rows, limit: wanted });
    found.push(...window.found);
    steps.took(window);
    // The page is full. Finding out whether one more exists is not worth the rest of the budget.
    if (found.length >= limit) break;
  }
  const page = toPage(found, limit, steps.rest());
  return page.partial ? { ...page, searched: steps.examined() } : page;
}

function toPage(found: readonly FoundJob[], limit: number, rest: string | null): FoundPage {
  const jobs = found.slice(0, limit);
  if (found.length > limit) return { jobs, next: jobs.at(-1)?.id ?? null, partial: false };
  return { jobs, next: rest, partial: rest !== null && jobs.length < limit };
}

/** Count matching jobs, up to 10,000 or until the budget is spent. `next` continues the count. */
export async function countUpTo(db: Run, search: Search, budget = usual): Promise<Count> {
  const few = await countFew(db, search);
  if (few !== undefined) return { count: few, capped: false };

  let count = 0;
  const steps = stepsOf(search, budget, windows.first);
  for (let step = steps.next(); step !== undefined; step = steps.next()) {
    const window = await countWalk(db, step.search, { rows: step.rows });
    count += window.found;
    steps.took(window);
    if (count > mostCounted) break;
  }
  const next = steps.rest();
  return next === null ? { count, capped: false } : { count, capped: true, next };
}

/** Count matching jobs by an index that holds all of them and at most 10,000 others. */
export async function countFew(db: Run, search: Search): Promise<number | undefined> {
  const by = fewBy(search);
  return by === undefined ? undefined : await countGather(db, search, by, { most: mostGathered });
}

/** The small indexes that together contain every match; undefined if there are none. */
function fewBy({ states, key, queue }: Search): Few | undefined {
  const none: Few = { key: false, running: false, parked: false, due: false, ready: false };
  if (key !== null) return { ...none, key: true };
  const has = (state: Search["states"][number]): boolean => states.includes(state);
  if (has("succeeded") || has("dead") || has("cancelled")) return undefined;
  // The index of ready jobs begins with the queue: it serves one queue, not all and not a pattern.
  if (has("ready") && (queue === null || isPattern(queue))) return undefined;
  return {
    key: false,
    running: has("running"),
    parked: has("parked"),
    due: has("scheduled") || has("retrying"),
    ready: has("ready"),
  };
}

type Steps = {
  next(): { search: Search; rows: number } | undefined;
  took(window: { examined: number; reached: string | null }): void;
  rest(): string | null;
  examined(): number;
};

/**
 * Windows from the newest id downwards, each sized to take about 100 ms, until the budget is spent. Windows are limited in rows
 * and in time span: between the ids of two live jobs there may be millions of dead index entries, which cost as much as rows and
 * are not counted as rows.
 */
function stepsOf(search: Search, budget: Budget, first: number): Steps {
  const began = performance.now();
  let before: string | null = search.before;
  let rows = Math.min(first, budget.rows);
  let left = budget.rows;
  let spanMs = spans.firstMs;
  let from = search.from;
  let looked = false;
  let sentAt = began;
  let awayMs = windows.aimMs;
  let spentMs = 0;
  return {
    next: () => {
      sentAt = performance.now();
      const isLate = spentMs > budget.ms || sentAt - began > mostTimes * budget.ms;
      if (before === null || left <= 0 || (looked && isLate)) return undefined;
      looked = true;
      from = spanMs > spans.mostMs ? search.from : later(search.from, firstIdOf(before, spanMs));
      return { search: { ...search, before, from }, rows: Math.min(rows, left) };
    },
    took: ({ examined, reached }) => {
      const tookMs = performance.now() - sentAt;
      // The fastest window approximates the round trip, which is not work of the search.
      awayMs = Math.min(awayMs, tookMs);
      spentMs += tookMs - awayMs;
      const room = windows.aimMs / Math.max(1, tookMs - awayMs);
      if (reached === null) spanMs = Math.max(spans.leastMs, spanMs * Math.min(spans.growth, room));
      else {
        rows = Math.round(
          Math.min(windows.most, Math.max(windows.least, rows * Math.min(windows.growth, room))),
        );
        spanMs = Math.max(spans.leastMs, spanMs * Math.min(1, room));
      }
      left -= examined;
      before = reached ?? (from === search.from ? null : from);
    },
    rest: () => before,
    examined: () => budget.rows - left,
  };
}

/** The lowest id of the time `spanMs` before the given id, or before now if that id is in the future. */
function firstIdOf(before: string, spanMs: number): string {
  return firstIdAt(Math.min(timeOf(before), Date.now()) - spanMs);
}

function later(a: string, b: string): string {
  return a > b ? a : b;
}
