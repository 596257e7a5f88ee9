import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

export type KindInfo = {
  name: string;
  queue: string;
  priority: number | null;
  maxCrashes: number | null;
};

const putKinds = statement(
  "register-kinds",
  `
  insert into stint.kind as k (name, queue, priority, max_crashes)
  select name, queue, priority, max_crashes
  from jsonb_to_recordset($1::text::jsonb) as r (name text, queue text, priority smallint, max_crashes integer)
  -- Everybody in one order, and no write at all where nothing changed.
  order by name
  on conflict (name) do update
    set queue = excluded.queue, priority = excluded.priority, max_crashes = excluded.max_crashes, seen_at = clock_timestamp()
    where (k.queue, k.priority, k.max_crashes) is distinct from (excluded.queue, excluded.priority, excluded.max_crashes)`,
);

/** Tell the database of the kinds somebody serves, for those who cannot ask. */
export async function registerKinds(db: Run, kinds: readonly KindInfo[]): Promise<void> {
  const rows = kinds.map((kind) => ({
    name: kind.name,
    queue: kind.queue,
    priority: kind.priority,
    max_crashes: kind.maxCrashes,
  }));
  await db.run(putKinds, [JSON.stringify(rows)]);
}

const selectUnserved = statement(
  "unserved",
  `
  with recursive queues (queue) as (
    (select queue from stint.job where state = 'ready' order by queue limit 1)
    union all
    select (select j.queue from stint.job j where j.state = 'ready' and j.queue > q.queue order by j.queue limit 1)
    from queues q
    where q.queue is not null
  )
  select head.kind, q.queue, min(head.run_at) as oldest
  from queues q
  -- The head is enough: what nobody takes comes to stand there. Counting the whole queue would cost what it holds.
  cross join lateral (
    select j.kind, j.run_at
    from stint.job j
    where j.state = 'ready' and j.queue = q.queue
    order by j.priority, j.run_at, j.id
    limit 200
  ) head
  where head.run_at < statement_timestamp() - $1::bigint * interval '1 millisecond'
    and not exists (
      select from stint.worker w
      where head.kind = any (w.kinds) and w.pools ? q.queue and not w.draining
        and (w.asleep or w.seen_at > statement_timestamp() - interval '2 minutes')
    )
  group by head.kind, q.queue
  order by oldest
  limit 20`,
);

export type Unserved = { kind: string; queue: string; oldest: Date };

/** Kinds that stand at the head of a queue and that no live worker serves there. */
export async function unserved(db: Run, waitedMs: number): Promise<Unserved[]> {
  return (await db.run(selectUnserved, [waitedMs])) as Unserved[];
}
