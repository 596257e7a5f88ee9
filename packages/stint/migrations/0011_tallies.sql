-- How many jobs there are, without counting them.
-- oldest code: 11

-- Every statement that changes these counts inserts the change in the same transaction, one row for each queue, kind and priority.
-- A claim inserts nothing: running jobs are read from the index of leases. So ready = live - running - scheduled - retrying - parked.
create table stint.tally_delta (
  -- The top-level transaction, never a savepoint's. Decides whether the row has been folded, see tally_fold.
  xid       xid8 not null default pg_current_xact_id(),
  queue     text not null,
  kind      text not null,
  priority  smallint not null,
  live      integer not null default 0,            -- all jobs that have not ended
  scheduled integer not null default 0,
  retrying  integer not null default 0,
  parked    integer not null default 0,
  dead      integer not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000, vacuum_truncate = false);
alter table stint.tally_delta alter column xid set statistics 0;
create index tally_delta_xid on stint.tally_delta (xid);
-- The table has no key. Without this, folds could not delete from it under a publication for all tables.
alter table stint.tally_delta replica identity full;

-- The sums of folded deltas, in rows that are inserted and never updated: an update leaves a dead version that stays while any transaction
-- is open, and every reader walks past all of them. Each fold inserts what it took under its own number; now and then a fold merges all
-- rows into its own.
create table stint.tally (
  fold      bigint not null,
  queue     text not null,
  kind      text not null,
  priority  smallint not null,
  live      bigint not null,
  scheduled bigint not null,
  retrying  bigint not null,
  parked    bigint not null,
  dead      bigint not null,
  arrived   bigint not null default 0,             -- jobs that arrived; a pair of queue and kind that fold_tallies drops restarts at zero
  primary key (fold, queue, kind, priority)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table stint.tally alter column fold set statistics 0;

-- The last fold: one row, replaced by each fold. Exactly the deltas of transactions visible in its snapshot are folded. Unfolded are those
-- of transactions that were open then or started later, and the index on xid finds both without visiting deleted entries. So neither folds
-- nor readers walk the dead entries that an open transaction keeps, and a delta that commits late is not missed.
create table stint.tally_fold (
  fold      bigint primary key,
  base      bigint not null,                       -- the sums are the rows of folds from this number on
  together  integer not null,                      -- how many rows the last merge wrote
  added     integer not null,                      -- how many rows were added since
  snapshot  pg_snapshot not null,
  home      text not null,                         -- the server and database that the snapshot belongs to
  at        timestamptz not null,
  framed_at timestamptz not null,                  -- when all queues were last sampled, changed or not
  to_sample jsonb not null                         -- queues and kinds that the next sample must include
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Identifies this server, database and table. A restored dump, or a subscriber that takes over, holds transaction numbers of another server.
-- A server that hides its identifier is recognized by the other two.
create function stint.home() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_server text;
begin
  begin
    select c.system_identifier into v_server from pg_control_system() c;
  exception when others then
    v_server := 'unnamed';
  end;
  return format('%s/%s/%s', v_server,
    (select d.oid from pg_database d where d.datname = current_database()), 'stint.tally_fold'::regclass::oid);
end
$$;

insert into stint.tally_fold (fold, base, together, added, snapshot, home, at, framed_at, to_sample)
values (1, 1, 0, 0, pg_current_snapshot(), stint.home(), '-infinity', '-infinity', '[]');

-- Deltas that have not been folded.
-- `limit 1`: there is one row, but a planner that expects a hundred would sort all deltas on disk instead of hashing them.
create view stint.tally_unfolded as
  select d.*
  from (select snapshot from stint.tally_fold order by fold desc limit 1) f
  cross join lateral (
    select u.* from stint.tally_delta u where u.xid >= stint.by_index(pg_snapshot_xmax(f.snapshot))
  ) d
  union all
  select d.*
  from (select snapshot from stint.tally_fold order by fold desc limit 1) f
  cross join lateral pg_snapshot_xip(f.snapshot) as open (xid)
  cross join lateral (
    select u.* from stint.tally_delta u where u.xid = stint.by_index(open.xid)
  ) d;

-- How many jobs there are. Exact at every moment, whether or not a worker folds.
create view stint.depth as
  select
    queue, kind, priority,
    sum(live) as live, sum(scheduled) as scheduled,
    sum(live) - sum(scheduled) - sum(retrying) - sum(parked) - sum(running) as ready,
    sum(running) as running, sum(retrying) as retrying, sum(parked) as parked, sum(dead) as dead
  from (
    select t.queue, t.kind, t.priority, t.live, t.scheduled, t.retrying, t.parked, t.dead, 0::bigint as running
    from (select base from stint.tally_fold order by fold desc limit 1) f
    cross join lateral (select s.* from stint.tally s where s.fold >= stint.by_index(f.base)) t
    union all
    -- Summed separately: without a worker there may be a million, and the union would be sorted on disk.
    select queue, kind, priority, sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead), 0
    from stint.tally_unfolded
    group by queue, kind, priority
    union all
    -- Forced onto the index of leases: statistics gathered while all jobs ran would make the planner read the whole table.
    select queue, kind, priority, 0, 0, 0, 0, 0, 1
    from stint.job
    where state = 'running' and lease_until >= stint.by_index((select '-infinity'::timestamptz))
  ) tallied
  group by queue, kind, priority;

-- How many jobs arrived, enqueued or replayed. Beyond a thousand rows, pairs that are long unused are dropped and restart at zero.
create view stint.arrivals as
  select queue, kind, sum(arrived) as arrived
  from (
    select t.queue, t.kind, t.arrived
    from (select base from stint.tally_fold order by fold desc limit 1) f
    cross join lateral (select s.* from stint.tally s where s.fold >= stint.by_index(f.base)) t
    union all
    select queue, kind, sum(greatest(live, 0)) from stint.tally_unfolded group by queue, kind
  ) tallied
  group by queue, kind
  having sum(arrived) > 0;

-- Enqueues that created no job, appended by enqueue_row. Each fold adds up what came since, and merges all rows into one for each queue, kind and status.
create table stint.enqueue_count (
  queue  text not null,
  kind   text not null,
  status text not null,
  count  bigint not null,
  merged boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false);
create index enqueue_count_new on stint.enqueue_count (merged) where not merged;
alter table stint.enqueue_count replica identity full;

-- How often an enqueue found a job with its dedupe key: it was existing, replaced or deferred.
create view stint.enqueues as
  select queue, kind, status, sum(count) as count from stint.enqueue_count group by queue, kind, status;

-- Merges the counts of enqueues and records them in the series. Called by folds, one session at a time.
create function stint.fold_enqueues() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new jsonb;
begin
  if not exists (select from stint.enqueue_count c where not c.merged) then
    return;
  end if;
  with gone as (
    delete from stint.enqueue_count c returning c.queue, c.kind, c.status, c.count, c.merged
  ), sums as (
    insert into stint.enqueue_count (queue, kind, status, count, merged)
    select queue, kind, status, sum(count), true from gone group by queue, kind, status
  ), new as (
    select queue, kind, jsonb_object_agg(status, count) as counts
    from (select queue, kind, status, sum(count) as count from gone where not merged group by queue, kind, status) n
    group by queue, kind
  )
  select jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind) || counts) into v_new from new;
  perform stint.record_series(v_new);
end
$$;

-- The depth found by counting, which reads every live and every dead job: for recounts and for checks.
create view stint.counted as
  select
    queue, kind, priority,
    count(*) filter (where state <> 'dead') as live,
    count(*) filter (where state = 'scheduled') as scheduled,
    count(*) filter (where state = 'ready') as ready,
    count(*) filter (where state = 'running') as running,
    count(*) filter (where state = 'retrying') as retrying,
    count(*) filter (where state = 'parked') as parked,
    count(*) filter (where state = 'dead') as dead
  from (
    select queue, kind, priority, state from stint.job
    union all
    select queue, kind, priority, state from stint.history where state = 'dead'
  ) jobs
  group by queue, kind, priority;

-- The snapshot of the calling statement, cut off before the transaction `p_end` (null: not cut off). Its own transaction counts as open,
-- because the deltas it inserts afterwards are not folded.
create function stint.folding_snapshot(p_end xid8 default null) returns pg_snapshot
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select format('%s:%s:%s', least(pg_snapshot_xmin(s.seen), s.xmax), s.xmax, (
    select string_agg(open.xid::text, ',' order by open.xid)
    from (
      select xid from pg_snapshot_xip(s.seen) as running (xid)
      union
      select pg_current_xact_id_if_assigned()
    ) open
    where open.xid < s.xmax
  ))::pg_snapshot
  from (select now.seen, least(pg_snapshot_xmax(now.seen), p_end) as xmax from (select pg_current_snapshot() as seen) now) s
$$;

-- Counts all jobs again: after an upgrade, or after rows were changed by hand. Blocks no other session: it counts what its snapshot sees,
-- and later commits are in unfolded deltas.
create function stint.recount() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = on                            -- fold_tallies, which may call this, turns it off
as $$
declare
  v_fold bigint;
begin
  -- Waits for a running fold, whose sums would otherwise be added to these.
  perform pg_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint));
  select coalesce(max(f.fold), 0) + 1 into v_fold from stint.tally_fold f;
  with old_sums as (
    delete from stint.tally returning queue, kind, priority, arrived
  ), last as (
    delete from stint.tally_fold
  ), gone as (
    -- All visible deltas are counted, whatever their xid: after a restore, xids are those of another server.
    delete from stint.tally_delta returning queue, kind, priority, greatest(live, 0) as arrived
  ), came as (
    select queue, kind, priority, sum(arrived) as arrived
    from (select * from old_sums union all select * from gone) said
    group by queue, kind, priority
  ), summed as (
    insert into stint.tally (fold, queue, kind, priority, live, scheduled, retrying, parked, dead, arrived)
    select
      v_fold, queue, kind, priority, coalesce(c.live, 0), coalesce(c.scheduled, 0), coalesce(c.retrying, 0), coalesce(c.parked, 0),
      coalesce(c.dead, 0), coalesce(a.arrived, 0)
    from stint.counted c
    full join came a using (queue, kind, priority)
    returning 1
  )
  -- In the counting statement, so that it is the same snapshot. The next sample includes all queues.
  insert into stint.tally_fold (fold, base, together, added, snapshot, home, at, framed_at, to_sample)
  select v_fold, v_fold, (select count(*) from summed), 0, stint.folding_snapshot(), stint.home(), clock_timestamp(), '-infinity', '[]';
end
$$;

select stint.recount();

select stint.revoke_new_functions();
