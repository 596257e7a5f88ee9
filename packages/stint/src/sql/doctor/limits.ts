import type { Run } from "../../db/db.ts";
import { columns, number, readMany, text, textOrNull } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

/** A key whose waiting jobs do not continue. */
export type BlockedKey = {
  readonly key: string;
  readonly waiting: number;
  readonly sinceMs: number;
  /** The dead job that blocks an ordered key; null: the limit has been full all the time. */
  readonly dead: string | null;
};

/** Waiting jobs that are looked at, the first of each key. */
const mostKeys = 1_000;

const findBlocked = statement(
  "blocked-limits",
  `
  with recursive awaited (key) as (
    (select p.key from stint.limit_place p where not p.holds order by p.key limit 1)
    union all
    select (select p.key from stint.limit_place p where not p.holds and p.key > a.key order by p.key limit 1)
    from awaited a where a.key is not null
  )
  select
    a.key, d.id::text as dead,
    (select count(*) from (select from stint.limit_place p where p.key = a.key and not p.holds limit 10001) w)::integer as waiting,
    (extract(epoch from clock_timestamp() - f.at) * 1000)::float8 as "sinceMs"
  from (select key from awaited where key is not null limit ${mostKeys}) a
  cross join lateral (
    select p.at from stint.limit_place p where p.key = a.key and not p.holds order by p.priority, p.run_at, p.seq limit 1
  ) f
  left join lateral (
    select h.id from stint.limit_place p join stint.history h on h.id = p.job_id and h.state = 'dead'
    where p.key = a.key and p.holds and p.ordered = 'block' limit 1
  ) d on true
  where d.id is not null or f.at < clock_timestamp() - $1::bigint * interval '1 millisecond'
  order by (d.id is null), f.at
  limit 100`,
);

const toBlocked = columns<BlockedKey>({
  key: text,
  waiting: number,
  sinceMs: number,
  dead: textOrNull,
});

/** Keys whose first waiting job has waited for this long, and ordered keys that a dead job blocks. */
export async function blockedKeys(db: Run, waitedMs: number): Promise<BlockedKey[]> {
  return await readMany(db, findBlocked, [waitedMs], toBlocked);
}
