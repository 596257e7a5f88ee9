-- Signals: how many jobs there are, what happened to them when, how workers are.
-- oldest code: 5

-- ---- Depth without counting ------------------------------------------------------------------------

-- Whoever changes what is counted here says so in the same transaction, in one row for each queue, kind and priority.
-- A claim says nothing: what runs is told by the index of leases. So ready = live - running - scheduled - retrying - parked.
create table stint.tally_delta (
  -- The transaction it belongs to, never that of a savepoint within. Says what has been folded, see tally_fold.
  xid       xid8 not null default pg_current_xact_id(),
  queue     text not null,
  kind      text not null,
  priority  smallint not null,
  live      integer not null default 0,            -- every job that has not ended
  scheduled integer not null default 0,
  retrying  integer not null default 0,
  parked    integer not null default 0,
  dead      integer not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000, vacuum_truncate = false);
alter table stint.tally_delta alter column xid set statistics 0;
create index tally_delta_xid on stint.tally_delta (xid);
-- It has no key. Under a publication for all tables, a fold could not delete from it otherwise.
alter table stint.tally_delta replica identity full;

-- The sums of what has been folded.
create table stint.tally (
  queue     text not null,
  kind      text not null,
  priority  smallint not null,
  live      bigint not null,
  scheduled bigint not null,
  retrying  bigint not null,
  parked    bigint not null,
  dead      bigint not null,
  primary key (queue, kind, priority)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What has been folded: exactly the deltas of transactions that this snapshot saw. The others are those that were open then
-- and those that came later, and the index finds both without meeting what was deleted. So neither a fold nor a reader walks the
-- dead entries that somebody's open transaction keeps, and nothing that commits late is missed.
create table stint.tally_fold (
  one      boolean primary key default true check (one),  -- there is only one
  snapshot pg_snapshot not null,
  at       timestamptz not null
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
insert into stint.tally_fold (snapshot, at) values (pg_current_snapshot(), '-infinity');

-- What has not been folded yet.
-- `limit 1`: there is only one, and a planner that believes in a hundred sorts all deltas on disk instead of hashing them.
create view stint.tally_unfolded as
  select d.*
  from (select snapshot from stint.tally_fold limit 1) f
  cross join lateral (
    select u.* from stint.tally_delta u where u.xid >= stint.by_index(pg_snapshot_xmax(f.snapshot))
  ) d
  union all
  select d.*
  from (select snapshot from stint.tally_fold limit 1) f
  cross join lateral pg_snapshot_xip(f.snapshot) as open (xid)
  cross join lateral (
    select u.* from stint.tally_delta u where u.xid = stint.by_index(open.xid)
  ) d;

-- How many jobs there are, exact at every moment, whether or not anybody folds.
create view stint.depth as
  select
    queue, kind, priority,
    sum(live) as live, sum(scheduled) as scheduled,
    sum(live) - sum(scheduled) - sum(retrying) - sum(parked) - sum(running) as ready,
    sum(running) as running, sum(retrying) as retrying, sum(parked) as parked, sum(dead) as dead
  from (
    select queue, kind, priority, live, scheduled, retrying, parked, dead, 0::bigint as running from stint.tally
    union all
    -- Summed by themselves: while no worker folds there may be a million, and all three together would be sorted on disk.
    select queue, kind, priority, sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead), 0
    from stint.tally_unfolded
    group by queue, kind, priority
    union all
    -- By the index of leases, whatever the statistics say: gathered while all jobs ran, they would have it read the whole table.
    select queue, kind, priority, 0, 0, 0, 0, 0, 1
    from stint.job
    where state = 'running' and lease_until >= stint.by_index((select '-infinity'::timestamptz))
  ) tallied
  group by queue, kind, priority;

-- What the statement that asks sees, as far as the transactions before `p_end`; null: all of them. Its own transaction counts as
-- open: what it says to the tallies afterwards has not been folded.
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

-- Counts everything anew: after an upgrade, after rows were changed by hand. Holds nobody up: what its snapshot sees it counts,
-- and what commits later is in deltas that have not been folded.
create function stint.recount() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Waits for a fold that is under way; its sums would come after these.
  perform pg_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint));
  with counted as (
    select
      queue, kind, priority,
      count(*) filter (where state <> 'dead') as live,
      count(*) filter (where state = 'scheduled') as scheduled,
      count(*) filter (where state = 'retrying') as retrying,
      count(*) filter (where state = 'parked') as parked,
      count(*) filter (where state = 'dead') as dead
    from (
      select queue, kind, priority, state from stint.job
      union all
      select queue, kind, priority, state from stint.history where state = 'dead'
    ) jobs
    group by queue, kind, priority
  ), marked as (
    -- In the statement that counts, so that it is the very snapshot.
    update stint.tally_fold set snapshot = stint.folding_snapshot(), at = clock_timestamp()
  ), gone as (
    -- All that this statement sees has been counted, whatever its number: after a restore numbers are of another server.
    delete from stint.tally_delta
  )
  insert into stint.tally as t (queue, kind, priority, live, scheduled, retrying, parked, dead)
  select
    queue, kind, priority, coalesce(c.live, 0), coalesce(c.scheduled, 0), coalesce(c.retrying, 0),
    coalesce(c.parked, 0), coalesce(c.dead, 0)
  from counted c
  full join stint.tally old using (queue, kind, priority)
  on conflict (queue, kind, priority) do update
    set live = excluded.live, scheduled = excluded.scheduled, retrying = excluded.retrying, parked = excluded.parked,
        dead = excluded.dead;
end
$$;

-- ---- What happened when ----------------------------------------------------------------------------

-- Counted in steps of ten seconds, a minute, ten minutes and an hour, all written at once: nothing has to be rolled up. A row is of the
-- moment its counts were sent, up to ten seconds after they were counted.
create table stint.series (
  step        integer not null check (step in (10, 60, 600, 3600)),
  at          timestamptz not null,                -- when the step began
  queue       text not null,
  kind        text not null,
  arrived     bigint not null default 0,
  claimed     bigint not null default 0,
  succeeded   bigint not null default 0,
  failed      bigint not null default 0,
  timed_out   bigint not null default 0,
  retried     bigint not null default 0,
  dead        bigint not null default 0,
  cancelled   bigint not null default 0,
  snoozed     bigint not null default 0,
  released    bigint not null default 0,
  rescued     bigint not null default 0,
  lease_lost  bigint not null default 0,
  slow        bigint not null default 0,
  attempts_of_succeeded bigint not null default 0,
  -- How often what lasted how long, by the bounds of src/signals/histogram.ts. Null: nothing.
  wait        integer[],
  wait_ms     double precision not null default 0,
  run         integer[],
  run_ms      double precision not null default 0,
  -- As last sampled within the step; null where nothing was. The age is that of the whole queue.
  ready       bigint,
  running     bigint,
  oldest_ready_ms double precision,
  primary key (step, at, queue, kind)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The tenants whose attempts ended most often, in steps of ten minutes. Each worker sends its first few: a signal, not an account.
create table stint.tenant_usage (
  at     timestamptz not null,
  tenant text not null,
  ended  bigint not null,
  run_ms double precision not null,
  primary key (at, tenant)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

create function stint.step_of(p_at timestamptz, p_step integer) returns timestamptz
language sql immutable parallel safe
as $$
  select to_timestamp(floor(extract(epoch from p_at) / p_step) * p_step)
$$;

-- Bucket by bucket.
create function stint.add_buckets(a integer[], b integer[]) returns integer[]
language sql immutable parallel safe
as $$
  select case
    when a is null then b
    when b is null then a
    else array(select coalesce(x, 0) + coalesce(y, 0) from unnest(a, b) as pair (x, y))
  end
$$;

-- Adds to the steps of this moment. `p_rows` is an array of objects with the columns above; what is left out is zero.
create function stint.record_series(p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  insert into stint.series as s (
    step, at, queue, kind, arrived, claimed, succeeded, failed, timed_out, retried, dead, cancelled, snoozed, released, rescued,
    lease_lost, slow, attempts_of_succeeded, wait, wait_ms, run, run_ms, ready, running, oldest_ready_ms
  )
  select
    steps.step, stint.step_of(v_now, steps.step), r.queue, r.kind, coalesce(r.arrived, 0), coalesce(r.claimed, 0),
    coalesce(r.succeeded, 0), coalesce(r.failed, 0), coalesce(r.timed_out, 0), coalesce(r.retried, 0), coalesce(r.dead, 0),
    coalesce(r.cancelled, 0), coalesce(r.snoozed, 0), coalesce(r.released, 0), coalesce(r.rescued, 0), coalesce(r.lease_lost, 0),
    coalesce(r.slow, 0), coalesce(r.attempts_of_succeeded, 0), r.wait, coalesce(r.wait_ms, 0), r.run, coalesce(r.run_ms, 0),
    r.ready, r.running, r.oldest_ready_ms
  from jsonb_to_recordset(p_rows) as r (
    queue text, kind text, arrived bigint, claimed bigint, succeeded bigint, failed bigint, timed_out bigint, retried bigint,
    dead bigint, cancelled bigint, snoozed bigint, released bigint, rescued bigint, lease_lost bigint, slow bigint,
    attempts_of_succeeded bigint, wait integer[], wait_ms double precision, run integer[], run_ms double precision,
    ready bigint, running bigint, oldest_ready_ms double precision
  )
  cross join unnest(array[10, 60, 600, 3600]) as steps (step)
  -- Everybody in one order: two workers that send the same kinds at once would otherwise wait for each other.
  order by steps.step, r.queue collate "C", r.kind collate "C"
  on conflict (step, at, queue, kind) do update set
    arrived = s.arrived + excluded.arrived, claimed = s.claimed + excluded.claimed, succeeded = s.succeeded + excluded.succeeded,
    failed = s.failed + excluded.failed, timed_out = s.timed_out + excluded.timed_out, retried = s.retried + excluded.retried,
    dead = s.dead + excluded.dead, cancelled = s.cancelled + excluded.cancelled, snoozed = s.snoozed + excluded.snoozed,
    released = s.released + excluded.released, rescued = s.rescued + excluded.rescued,
    lease_lost = s.lease_lost + excluded.lease_lost, slow = s.slow + excluded.slow,
    attempts_of_succeeded = s.attempts_of_succeeded + excluded.attempts_of_succeeded,
    wait = stint.add_buckets(s.wait, excluded.wait), wait_ms = s.wait_ms + excluded.wait_ms,
    run = stint.add_buckets(s.run, excluded.run), run_ms = s.run_ms + excluded.run_ms,
    ready = coalesce(excluded.ready, s.ready), running = coalesce(excluded.running, s.running),
    oldest_ready_ms = case when excluded.ready is null then s.oldest_ready_ms else excluded.oldest_ready_ms end;
end
$$;

create function stint.record_tenants(p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.tenant_usage as u (at, tenant, ended, run_ms)
  select stint.step_of(clock_timestamp(), 600), r.tenant, r.ended, r.run_ms
  from jsonb_to_recordset(p_rows) as r (tenant text, ended bigint, run_ms double precision)
  order by r.tenant collate "C"                    -- as above
  on conflict (at, tenant) do update set ended = u.ended + excluded.ended, run_ms = u.run_ms + excluded.run_ms;
end
$$;

-- ---- Folding ---------------------------------------------------------------------------------------

-- Moves what has not been folded into the sums, and samples the depth where it changed. One at a time, and none if the last one was less
-- than `p_rest_ms` ago: of many workers each would otherwise do it. Without `p_sample` only what arrived is told. Takes about
-- `p_most` at once, the oldest first: what was said while no worker ran could outlast every time limit. Answers how many deltas it took.
create function stint.fold_tallies(p_rest_ms integer default 0, p_sample boolean default true, p_most integer default 200000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_last    pg_snapshot;
  v_end     xid8;
  v_folded  integer;
  v_changed jsonb;
  v_sampled jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint)) then
    return 0;
  end if;
  select f.snapshot into v_last
  from stint.tally_fold f
  where f.at <= clock_timestamp() - p_rest_ms * interval '1 millisecond'
    or f.at > clock_timestamp();                   -- the clock was put back
  if not found then
    return 0;
  end if;
  -- Transactions are counted anew: this database was restored from a dump, and what the snapshot says is of another server.
  if pg_snapshot_xmax(v_last) > pg_snapshot_xmax(pg_current_snapshot()) then
    perform stint.recount();
    return 0;
  end if;

  -- Whole transactions, and at least one.
  select (u.xid::text::bigint + 1)::text::xid8 into v_end
  from stint.tally_delta u
  where u.xid >= stint.by_index(pg_snapshot_xmax(v_last))
  order by u.xid
  offset p_most - 1
  limit 1;

  with gone as (
    delete from stint.tally_delta d
    where d.ctid = any (array(
      select u.ctid
      from stint.tally_delta u
      where u.xid >= stint.by_index(pg_snapshot_xmax(v_last)) and (v_end is null or u.xid < v_end)
      union all
      select u.ctid
      from pg_snapshot_xip(v_last) as open (xid)
      cross join lateral (select o.ctid from stint.tally_delta o where o.xid = stint.by_index(open.xid)) u
    ))
    returning d.queue, d.kind, d.priority, d.live, d.scheduled, d.retrying, d.parked, d.dead
  ), summed as (
    select
      queue, kind, priority, count(*) as deltas, sum(live) as live, sum(scheduled) as scheduled, sum(retrying) as retrying,
      sum(parked) as parked, sum(dead) as dead, sum(greatest(live, 0)) as arrived
    from gone
    group by queue, kind, priority
  ), folded as (
    insert into stint.tally as t (queue, kind, priority, live, scheduled, retrying, parked, dead)
    select queue, kind, priority, live, scheduled, retrying, parked, dead from summed
    on conflict (queue, kind, priority) do update
      set live = t.live + excluded.live, scheduled = t.scheduled + excluded.scheduled, retrying = t.retrying + excluded.retrying,
          parked = t.parked + excluded.parked, dead = t.dead + excluded.dead
  ), marked as (
    -- In the statement that takes them, so that it is the very snapshot.
    update stint.tally_fold set snapshot = stint.folding_snapshot(v_end), at = clock_timestamp()
    where exists (select from gone)
  )
  select coalesce(sum(deltas), 0), jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind, 'arrived', arrived))
  into v_folded, v_changed
  from (select queue, kind, sum(deltas) as deltas, sum(arrived) as arrived from summed group by queue, kind) k;
  if v_folded = 0 then
    return 0;
  end if;
  if not p_sample then
    perform stint.record_series(v_changed);
    return v_folded;
  end if;

  with depth as materialized (
    -- What only waits for its time, as one job of each of thousands of queues may, was sampled when that changed.
    select queue, kind, priority, ready, running from stint.depth where ready > 0 or running > 0
  ), oldest as (
    select q.queue, extract(epoch from clock_timestamp() - min(head.run_at)) * 1000 as ms
    from (select distinct queue, priority from depth) q
    cross join lateral (
      select r.run_at
      from stint.job r
      where r.state = 'ready' and r.queue = stint.by_index(q.queue) and r.priority = q.priority
      order by r.run_at
      limit 1
    ) head
    group by q.queue
  )
  select jsonb_agg(jsonb_build_object(
    'queue', queue, 'kind', kind, 'arrived', coalesce(c.arrived, 0), 'ready', coalesce(d.ready, 0),
    'running', coalesce(d.running, 0), 'oldest_ready_ms', case when o.ms is not null then greatest(o.ms, 0) end))
  into v_sampled
  from (select queue, kind, sum(ready) as ready, sum(running) as running from depth group by queue, kind) d
  full join jsonb_to_recordset(v_changed) as c (queue text, kind text, arrived bigint) using (queue, kind)
  left join oldest o using (queue);
  perform stint.record_series(v_sampled);
  return v_folded;
end
$$;

-- ---- Workers and kinds -----------------------------------------------------------------------------

-- How it is, as it last said itself: busy, slots, waiting, lagMs, rssBytes.
alter table stint.worker add column vitals jsonb;

-- What the kind's attempts get unless a job has its own.
alter table stint.kind add column lease_ms bigint, add column timeout_ms bigint;

-- The oldest dead job of each queue.
create index history_dead_queue on stint.history_dead (queue, finished_at);

select stint.recount();

-- Functions are open to everybody unless it is said otherwise.
revoke all on all functions in schema stint from public;
