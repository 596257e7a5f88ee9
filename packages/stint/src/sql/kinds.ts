import type { Run } from "../db/db.ts";
import { columns, flag, numberOrNull, readMany, readOne, text, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { readyQueues } from "./queues.ts";
import { isResponsive } from "./workers.ts";

export type KindInfo = {
  name: string;
  queue: string;
  priority: number | null;
  maxCrashes: number | null;
  /** The kind's defaults for its attempts. Slow-job checks compare run times with them. */
  leaseMs?: number;
  timeoutMs?: number;
  stallAfterMs?: number | undefined;
  /** The signals that its jobs receive; undefined: any. */
  signals?: readonly string[] | undefined;
};

const putKinds = statement(
  "register-kinds",
  `
  with given as materialized (
    select *
    from jsonb_to_recordset($1::text::jsonb)
      as r (
        name text, queue text, priority smallint, max_crashes integer, lease_ms bigint, timeout_ms bigint, stall_after_ms bigint, signals text[]
      )
  ), put as (
    insert into stint.kind as k (name, queue, priority, max_crashes, lease_ms, timeout_ms, stall_after_ms, signals)
    select name, queue, priority, max_crashes, lease_ms, timeout_ms, stall_after_ms, signals
    from given
    -- Every worker writes in the same order, which prevents deadlocks, and writes nothing if nothing changed.
    order by name
    on conflict (name) do update
      set queue = excluded.queue, priority = excluded.priority, max_crashes = excluded.max_crashes, lease_ms = excluded.lease_ms,
          timeout_ms = excluded.timeout_ms, stall_after_ms = excluded.stall_after_ms, signals = excluded.signals,
          seen_at = clock_timestamp()
      where (k.queue, k.priority, k.max_crashes, k.lease_ms, k.timeout_ms, k.stall_after_ms, k.signals)
        is distinct from (
          excluded.queue, excluded.priority, excluded.max_crashes, excluded.lease_ms, excluded.timeout_ms, excluded.stall_after_ms,
          excluded.signals
        )
  )
  select exists (
    select
    from given g
    cross join lateral (select from stint.kind_dependency d where d.kind = stint.by_index(g.name) limit 1) used
  ) as used, exists (select from stint.limit l where l.declared_max is not null) as limited`,
);

/** What workers have declared before. `used`: some of the kinds use dependencies. `limited`: there are limits, of these or other kinds. */
export type DeclaredBefore = { readonly used: boolean; readonly limited: boolean };

/** Register the kinds of a worker and their settings, for SQL enqueues and the inspector. */
export async function registerKinds(db: Run, kinds: readonly KindInfo[]): Promise<DeclaredBefore> {
  const rows = kinds.map((kind) => ({
    name: kind.name,
    queue: kind.queue,
    priority: kind.priority,
    max_crashes: kind.maxCrashes,
    lease_ms: kind.leaseMs ?? null,
    timeout_ms: kind.timeoutMs ?? null,
    stall_after_ms: kind.stallAfterMs ?? null,
    signals: kind.signals ?? null,
  }));
  return await readOne(db, putKinds, [JSON.stringify(rows)], (row) => ({
    used: flag(row, "used"),
    limited: flag(row, "limited"),
  }));
}

/** Checks the head of each queue. Pools are read once for all queues: the pools of one worker may name thousands. */
export const unservedKinds = (waitedMs: string): string => `
  with recursive ${readyQueues("queues")},
  waiting as materialized (
    select head.kind, q.queue, min(head.run_at) as oldest
    from queues q
    -- The head is enough: jobs that no worker takes end up there. Counting the whole queue would cost time in proportion to its depth.
    cross join lateral (
      select j.kind, j.run_at
      from stint.job j
      where j.state = 'ready' and j.queue = q.queue
      order by j.priority, j.run_at, j.id
      limit 200
    ) head
    where head.run_at < statement_timestamp() - ${waitedMs}::bigint * interval '1 millisecond'
    group by head.kind, q.queue
  ), served as materialized (
    select w.kinds, pool.queue
    from stint.worker w
    cross join lateral jsonb_object_keys(w.pools) as pool (queue)
    where not w.draining and ${isResponsive} and exists (select from waiting)
  ), patterns as materialized (
    select s.kinds, jsonb_build_object(s.queue, 0) as pools from served s where strpos(s.queue, '*') > 0
  )
  select u.kind, u.queue, u.oldest
  from waiting u
  where not exists (select from served s where s.queue = u.queue and u.kind = any (s.kinds))
    and not exists (
      select from patterns p where u.kind = any (p.kinds) and stint.served_as(p.pools, u.queue) is not null)
  order by u.oldest
  limit 20`;

const selectUnserved = statement("unserved", unservedKinds("$1"));

export type Unserved = { kind: string; queue: string; oldest: Date };

const toUnserved = columns<Unserved>({ kind: text, queue: text, oldest: time });

const selectKinds = statement("kinds", `select name, queue, lease_ms::float8 from stint.kind`);

/** Every kind that a worker has ever registered, with its queue and lease if set. */
export async function knownKinds(
  db: Run,
): Promise<{ name: string; queue: string; leaseMs: number | null }[]> {
  return await readMany(db, selectKinds, [], (row) => ({
    name: text(row, "name"),
    queue: text(row, "queue"),
    leaseMs: numberOrNull(row, "lease_ms"),
  }));
}

/** Kinds at the head of a queue that no live worker serves there. */
export async function unserved(db: Run, waitedMs: number): Promise<Unserved[]> {
  return await readMany(db, selectUnserved, [waitedMs], toUnserved);
}
