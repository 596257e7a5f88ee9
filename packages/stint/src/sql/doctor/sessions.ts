import type { Run } from "../../db/db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  oneOf,
  readMany,
  text,
  textOrNull,
} from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

// Only sessions of this database: since Postgres 14 a snapshot in another database does not hold back vacuum here.
const selectPins = statement(
  "doctor-pins",
  `
  select
    'session' as by, pid::text as id, application_name as name, usename::text as user, state,
    (extract(epoch from clock_timestamp() - xact_start) * 1000)::float8 as "ageMs",
    greatest(age(backend_xmin), age(backend_xid))::float8 as behind
  from pg_stat_activity
  where datname = current_database() and backend_type not in ('walsender', 'autovacuum worker', 'parallel worker')
    and application_name <> 'stint doctor'
    and (backend_xmin is not null or backend_xid is not null)
    and clock_timestamp() - xact_start > $1::bigint * interval '1 millisecond'
  union all
  select
    'prepared', gid, database::text, owner::text, 'prepared',
    (extract(epoch from clock_timestamp() - prepared) * 1000)::float8, age(transaction)::float8
  from pg_prepared_xacts
  where database = current_database() and clock_timestamp() - prepared > $1::bigint * interval '1 millisecond'
  union all
  select 'slot', slot_name::text, slot_type, null, case when active then 'active' else 'inactive' end, null, age(xmin)::float8
  from pg_replication_slots
  where xmin is not null and (not active or age(xmin) > $2::bigint)
  union all
  select
    'standby', coalesce(client_addr::text, 'a local standby'), application_name, usename::text, state,
    null, age(backend_xmin)::float8
  from pg_stat_replication
  where backend_xmin is not null and age(backend_xmin) > $2::bigint
  order by behind desc nulls last`,
);

const toPin = columns({
  by: oneOf(["session", "prepared", "slot", "standby"]),
  /** pid, gid, or name of the slot or standby. */
  id: text,
  /** Application, owner or kind of slot. */
  name: text,
  user: textOrNull,
  state: textOrNull,
  /** Since when its transaction is open; null if unknown. */
  ageMs: numberOrNull,
  /** How many transactions ago its snapshot was taken. */
  behind: number,
});
/** A session, prepared transaction, replication slot or standby that keeps vacuum from removing dead rows. */
export type Pin = ReturnType<typeof toPin>;

/** Everything that has held back vacuum for this long, or by this many transactions, oldest first. */
export async function pins(db: Run, olderMs: number, behind: number): Promise<Pin[]> {
  return await readMany(db, selectPins, [olderMs, behind], toPin);
}

const selectSlots = statement(
  "doctor-slots",
  `
  select
    slot_name::text as slot, slot_type as type, active, age(catalog_xmin)::float8 as "catalogBehind",
    (case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) end)::float8 as "keptBytes"
  from pg_replication_slots
  order by slot_name`,
);

const toSlot = columns({
  slot: text,
  type: text,
  active: flag,
  catalogBehind: numberOrNull,
  keptBytes: numberOrNull,
});
export type Slot = ReturnType<typeof toSlot>;

export async function slots(db: Run): Promise<Slot[]> {
  return await readMany(db, selectSlots, [], toSlot);
}

// Only locks that block reads or writes of rows, and locks that another session waits for.
const selectLocks = statement(
  "doctor-locks",
  `
  with ours as (
    select c.oid, c.relname
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind in ('r', 'p')
  ), waiter as (
    -- A session that waits for a row waits for the transaction of its holder, but already has its lock on the table.
    select w.pid, unnest(pg_blocking_pids(w.pid)) as by
    from (select distinct pid from pg_locks where not granted) w
  ), waiting as (
    select distinct w.pid, w.by, o.relname
    from waiter w
    join pg_locks l on l.pid = w.pid and l.database = (select oid from pg_database where datname = current_database())
    join ours o on o.oid = l.relation
  ), held as (
    select l.pid, o.relname, l.mode
    from pg_locks l join ours o on o.oid = l.relation
    where l.granted and l.locktype = 'relation' and l.database = (select oid from pg_database where datname = current_database())
      and (
        l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        or exists (select from waiting w where w.by = l.pid and w.relname = o.relname)
      )
  )
  select
    a.pid, a.application_name as name, a.usename::text as user, a.state,
    (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::float8 as "ageMs",
    h.relname as table, string_agg(distinct h.mode, ', ') as mode,
    array(select distinct w.pid from waiting w where w.by = a.pid order by 1) as blocks
  from held h
  join pg_stat_activity a on a.pid = h.pid
  where a.application_name <> 'stint doctor'
    and clock_timestamp() - a.xact_start > $2::bigint * interval '1 millisecond'
  group by a.pid, a.application_name, a.usename, a.state, a.xact_start, h.relname
  order by a.xact_start, h.relname
  limit 50`,
);

const toLock = columns({
  pid: number,
  name: text,
  user: textOrNull,
  state: textOrNull,
  ageMs: numberOrNull,
  table: text,
  mode: text,
  /** The sessions that wait for it. */
  blocks: json<number[]>,
});
export type HeldLock = ReturnType<typeof toLock>;

/** Locks on Stint's tables that other sessions wait for, or would have to wait for. */
export async function heldLocks(db: Run, schema: string, olderMs: number): Promise<HeldLock[]> {
  return await readMany(db, selectLocks, [schema, olderMs], toLock);
}
