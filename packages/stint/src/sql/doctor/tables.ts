import type { Run } from "../../db/db.ts";
import { columns, flag, number, numberOrNull, readMany, readOne, text } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

const selectTables = statement(
  "doctor-tables",
  `
  select
    c.relname as table,
    s.n_live_tup::float8 as live,
    s.n_dead_tup::float8 as dead,
    pg_table_size(c.oid)::float8 as bytes,
    pg_indexes_size(c.oid)::float8 as "indexBytes",
    (s.n_live_tup * (28 + (select sum(avg_width) from pg_stats p where p.schemaname = n.nspname and p.tablename = c.relname)))::float8
      as "liveBytes",
    (extract(epoch from clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) * 1000)::float8 as "sinceVacuumMs",
    (coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
      + coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::float8) * greatest(c.reltuples, 0))::float8 as threshold,
    coalesce(o.off, false) as "vacuumOff",
    exists (select from pg_stat_progress_vacuum v where v.relid = c.oid) as vacuuming
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_stat_all_tables s on s.relid = c.oid
  left join lateral (
    select
      max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
      max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale,
      bool_or(option_name = 'autovacuum_enabled' and not option_value::boolean) as off
    from pg_options_to_table(c.reloptions)
    where option_name in ('autovacuum_vacuum_threshold', 'autovacuum_vacuum_scale_factor', 'autovacuum_enabled')
  ) o on true
  where n.nspname = $1 and c.relkind = 'r'
  order by c.relname`,
);

const toTableFacts = columns({
  table: text,
  live: number,
  dead: number,
  bytes: number,
  indexBytes: number,
  /** An upper bound of free and dead space, from the average row size. */
  liveBytes: numberOrNull,
  sinceVacuumMs: numberOrNull,
  /** The number of dead rows at which autovacuum starts. */
  threshold: number,
  vacuumOff: flag,
  vacuuming: flag,
});
export type TableFacts = ReturnType<typeof toTableFacts>;

export async function tableFacts(db: Run, schema: string): Promise<TableFacts[]> {
  return await readMany(db, selectTables, [schema], toTableFacts);
}

export type HistoryFacts = {
  /** Days from today on that have a partition, up to the first gap. */
  daysAhead: number;
  /** Rows that no day's partition took, counted up to a limit. */
  rest: number;
};

export const restLimit = 10_000;

const selectHistory = statement(
  "doctor-history",
  `
  with day as (
    select n, to_char((now() at time zone 'UTC')::date + n, 'YYYYMMDD') as name from generate_series(0, 60) n
  ), missing as (
    select min(n) as n from day
    where not exists (
      select from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'stint.history_done'::regclass and c.relname = 'history_done_' || day.name)
  )
  select
    (select coalesce(n, 61) from missing)::integer as "daysAhead",
    (select count(*) from (select from stint.history_done_rest limit $1) r)::integer as rest`,
);

const toHistoryFacts = columns<HistoryFacts>({ daysAhead: number, rest: number });

export async function historyFacts(db: Run): Promise<HistoryFacts> {
  return await readOne(db, selectHistory, [restLimit], toHistoryFacts);
}

/** A counter that can be exhausted. */
export type Supply = { what: string; used: number; most: number };

const selectSupplies = statement(
  "doctor-supplies",
  `
  select 'sequence ' || sequencename as what, coalesce(last_value, 0)::float8 as used, max_value::float8 as most
  from pg_sequences
  where schemaname = $1
  union all
  select 'transaction ids of this database', age(datfrozenxid)::float8, 2147483647
  from pg_database where datname = current_database()
  union all
  select 'multixacts of this database', mxid_age(datminmxid)::float8, 2147483647
  from pg_database where datname = current_database()`,
);

const toSupply = columns<Supply>({ what: text, used: number, most: number });

export async function supplies(db: Run, schema: string): Promise<Supply[]> {
  return await readMany(db, selectSupplies, [schema], toSupply);
}
