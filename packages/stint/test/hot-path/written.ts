import { query } from "../support/database.ts";
import type { Fresh } from "../support/fresh.ts";

/** How many rows and index entries one installation wrote, as in `{ "job INSERT": 10, "job_pkey entry": 10 }`. */
export type Written = Record<string, number>;

/**
 * Read from the server's own log of what is written, so nothing is left out but what pages do among themselves. An entry
 * that finds its page full is part of the record of the split: those on the lowest level are entries, too. The days of history
 * count as one.
 */
export async function written(fresh: Fresh, from: string, to: string): Promise<Written> {
  const rows = await query<{ what: string; count: number }>(
    `select
       regexp_replace(c.relname, '^history_done_\\d+', 'history') || ' ' || case
         when b.record_type ~ '^(INSERT_LEAF|INSERT_POST|SPLIT)' then 'entry'
         else split_part(b.record_type, '+', 1)    -- the first row of a page is a row
       end as what,
       count(*)::integer as count
     from pg_get_wal_block_info($1, $2, false) b
     join pg_class c on c.relfilenode = b.relfilenode
     where c.relnamespace = $3::regnamespace
       and b.block_id = 0                          -- a record of two pages is one record
       and (b.resource_manager in ('Heap', 'Heap2') and b.record_type !~ '^(PRUNE|VISIBLE|FREEZE)'
         or b.record_type ~ '^INSERT_(LEAF|POST)'
         or b.record_type ~ '^SPLIT' and b.description ~ 'level: 0,')
     group by 1`,
    [from, to, `"${fresh.schema}"`],
    fresh.url,
  );
  return Object.fromEntries(rows.map(({ what, count }) => [what, count]));
}

/** How many transactions that wrote something were committed. */
export async function commits(fresh: Fresh, from: string, to: string): Promise<number> {
  const [row] = await query<{ count: number }>(
    `select coalesce(sum(count), 0)::integer as count
     from pg_get_wal_stats($1, $2, true)
     where "resource_manager/record_type" = 'Transaction/COMMIT'`,
    [from, to],
    fresh.url,
  );
  return row!.count;
}
