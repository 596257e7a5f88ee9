import type { Run } from "../db/db.ts";
import { flag, readMany, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** Queues by their names, in byte order: from `first` on, up to but without `until`; null for no end. */
export type QueueRange = { readonly first: string; readonly until: string | null };

export type ReadyQueues = {
  /** Queues with a ready job of these kinds. */
  readonly queues: readonly string[];
  /** Where the search continues: the last queue it looked at; null if it came to the end of the ranges. */
  readonly after: string | null;
};

/**
 * Queues with ready jobs of any kind, by the index that claims go by: as many steps as there are such queues, however many queues
 * the worker serves and however many jobs they hold. The limit stops the walk.
 */
export const walkReady = (p: { first: string; until: string; kinds: string; limit: number }): string => `
      select
        step.queue,
        coalesce((
          select true
          from stint.job r
          where r.state = 'ready'
            and r.queue = stint.by_index(step.queue)
            and r.kind = any (${p.kinds}::text[])
          order by r.priority, r.run_at, r.id
          limit 1
        ), false) as served
      from unnest(${p.first}::text[], ${p.until}::text[]) as range (first, until)
      cross join lateral (
        with recursive walk (queue) as (
          (
            select r.queue
            from stint.job r
            where r.state = 'ready' and r.queue >= stint.by_index(range.first)
            order by r.queue
            limit 1
          )
          union all
          select (
            select r.queue
            from stint.job r
            where r.state = 'ready' and r.queue > stint.by_index(w.queue)
            order by r.queue
            limit 1
          )
          from walk w
          where w.queue is not null and (range.until is null or w.queue < range.until)
        )
        select w.queue
        from walk w
        where w.queue is not null and (range.until is null or w.queue < range.until)
      ) step
      limit ${p.limit}`;

/** How many queues one search looks at. Two descents of the index each: a few milliseconds in all. */
const mostLookedAt = 1_000;

const selectReady = statement(
  "ready-queues",
  walkReady({ first: "$1", until: "$2", kinds: "$3", limit: mostLookedAt }),
);

/** The queues in these ranges that have ready jobs of these kinds, among the first thousand with any. */
export async function findReadyQueues(
  db: Run,
  { ranges, kinds }: { ranges: readonly QueueRange[]; kinds: readonly string[] },
): Promise<ReadyQueues> {
  const rows = await readMany(db, selectReady, [...rangeValues(ranges), kinds], (row) => ({
    queue: text(row, "queue"),
    served: flag(row, "served"),
  }));
  return {
    queues: rows.filter(({ served }) => served).map(({ queue }) => queue),
    after: rows.length < mostLookedAt ? null : (rows.at(-1)?.queue ?? null),
  };
}

export function rangeValues(ranges: readonly QueueRange[]): unknown[] {
  return [ranges.map(({ first }) => first), ranges.map(({ until }) => until)];
}
