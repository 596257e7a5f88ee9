-- How many jobs there are, without counting them.
-- oldest code: 6

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

-- The sums of what has been folded, in rows that are added and never changed: of a row that changes, an old version stays for as
-- long as somebody's transaction is open, and everybody who looks for it walks past all of them. Each fold adds what it took,
-- under its number; now and then one brings all of them together under its own.
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
  arrived   bigint not null default 0,             -- how many came; a pair of queue and kind that is forgotten (see fold_tallies) begins at zero again
  primary key (fold, queue, kind, priority)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
alter table stint.tally alter column fold set statistics 0;

-- The last fold: one row, and a new one for each. Folded are exactly the deltas of transactions that its snapshot saw. The others are
-- those that were open then and those that came later, and the index finds both without meeting what was deleted. So neither a fold
-- nor a reader walks the dead entries that somebody's open transaction keeps, and nothing that commits late is missed.
create table stint.tally_fold (
  fold      bigint primary key,
  base      bigint not null,                       -- the sums are the rows of the folds from this one on
  together  integer not null,                      -- how many rows that was when they were last brought together
  added     integer not null,                      -- and how many came since
  snapshot  pg_snapshot not null,
  home      text not null,                         -- whose transactions the snapshot speaks of
  at        timestamptz not null,
  framed_at timestamptz not null,                  -- when the depth of everything was last sampled, changed or not
  to_sample jsonb not null                         -- what the next sample must not leave out, by queue and kind
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Which server, database and table this is. A dump that is restored, or a subscriber that takes over, has the numbers of another
-- server's transactions. A server that does not tell its name is told from another by the rest.
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

-- What has not been folded yet.
-- `limit 1`: there is only one, and a planner that believes in a hundred sorts all deltas on disk instead of hashing them.
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

-- How many jobs there are, exact at every moment, whether or not anybody folds.
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

-- How many came, enqueued or replayed. Begins at zero again where a name was long unused among more than a thousand.
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

-- The depth found by counting, which reads every live and every dead job: for counting anew, and for those who compare.
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
set enable_seqscan = on                            -- also when a fold calls it
as $$
declare
  v_fold bigint;
begin
  -- Waits for a fold that is under way; its sums would come after these.
  perform pg_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint));
  select coalesce(max(f.fold), 0) + 1 into v_fold from stint.tally_fold f;
  with old_sums as (
    delete from stint.tally returning queue, kind, priority, arrived
  ), last as (
    delete from stint.tally_fold
  ), gone as (
    -- All that this statement sees has been counted, whatever its number: after a restore numbers are of another server.
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
  -- In the statement that counts, so that it is the very snapshot. The next sample is of everything.
  insert into stint.tally_fold (fold, base, together, added, snapshot, home, at, framed_at, to_sample)
  select v_fold, v_fold, (select count(*) from summed), 0, stint.folding_snapshot(), stint.home(), clock_timestamp(), '-infinity', '[]';
end
$$;

-- ---- Folding ---------------------------------------------------------------------------------------

-- Moves what has not been folded into the sums, samples the depth where it changed, and rolls up the series (0005). One at a time, and none if the
-- last one was less than `p_rest_ms` ago: of many workers each would otherwise do it. Without `p_sample` only what arrived is told. Takes
-- about `p_most` at once, the oldest first: what was said while no worker ran could outlast every time limit. Answers how many it took;
-- null: left to another, who is at it or has just done it.
create function stint.fold_tallies(p_rest_ms integer default 0, p_sample boolean default true, p_most integer default 200000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off                           -- by the indexes, past old versions, also if the plan is of when there were none
as $$
declare
  v_last      stint.tally_fold;
  v_together  boolean;
  v_end       xid8;
  v_snapshot  pg_snapshot;
  v_rows      integer;
  v_folded    integer;
  v_changed   jsonb;
  v_frame     boolean;
  v_to_sample jsonb;
  v_points    jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint)) then
    return null;
  end if;
  select f.* into v_last from stint.tally_fold f order by f.fold desc limit 1;
  -- Numbers of another server's transactions say nothing here. The second is for servers that do not tell their name.
  if v_last.home is distinct from stint.home() or pg_snapshot_xmax(v_last.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) then
    perform stint.recount();
    return 0;
  end if;
  if v_last.at > clock_timestamp() - p_rest_ms * interval '1 millisecond'
    and v_last.at <= clock_timestamp()             -- else the clock was put back
  then
    return null;
  end if;
  perform stint.roll_up_series();

  -- Whole transactions, and at least one.
  select (u.xid::text::bigint + 1)::text::xid8 into v_end
  from stint.tally_delta u
  where u.xid >= stint.by_index(pg_snapshot_xmax(v_last.snapshot))
  order by u.xid
  offset p_most - 1
  limit 1;
  -- As soon as as many were added as there are: readers find at most about twice as many as they need, and each is written about twice.
  v_together := v_last.added > greatest(v_last.together, 100);

  with gone as (
    delete from stint.tally_delta d
    where d.ctid = any (array(
      select u.ctid
      from stint.tally_delta u
      where u.xid >= stint.by_index(pg_snapshot_xmax(v_last.snapshot)) and (v_end is null or u.xid < v_end)
      union all
      select u.ctid
      from pg_snapshot_xip(v_last.snapshot) as open (xid)
      cross join lateral (select o.ctid from stint.tally_delta o where o.xid = stint.by_index(open.xid)) u
    ))
    returning d.queue, d.kind, d.priority, d.live, d.scheduled, d.retrying, d.parked, d.dead
  ), summed as (
    select
      queue, kind, priority, count(*) as deltas, sum(live) as live, sum(scheduled) as scheduled, sum(retrying) as retrying,
      sum(parked) as parked, sum(dead) as dead, sum(greatest(live, 0)) as arrived
    from gone
    group by queue, kind, priority
  ), old_sums as (
    delete from stint.tally t
    where v_together and t.fold >= stint.by_index(v_last.base)
    returning t.queue, t.kind, t.priority, t.live, t.scheduled, t.retrying, t.parked, t.dead, t.arrived, t.fold > v_last.base as is_new
  ), folded as (
    insert into stint.tally (fold, queue, kind, priority, live, scheduled, retrying, parked, dead, arrived)
    select v_last.fold + 1, queue, kind, priority, sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead), sum(arrived)
    from (
      select
        rows.*,
        bool_or(is_new or (live, scheduled, retrying, parked, dead) <> (0, 0, 0, 0, 0)) over (partition by queue, kind) as is_kept
      from (
        select queue, kind, priority, live, scheduled, retrying, parked, dead, arrived, true as is_new from summed
        union all
        select queue, kind, priority, live, scheduled, retrying, parked, dead, arrived, is_new from old_sums
      ) rows
    ) rows
    group by queue, kind, priority
    -- What is no more is kept for the sake of how many came; not among thousands, where names come and go. Kept or forgotten with
    -- all its priorities: a sum that lost one of them would fall, and whoever reads a counter takes what is left for new.
    having (sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead)) <> (0, 0, 0, 0, 0)
      or sum(arrived) > 0 and (v_last.together < 1000 or bool_or(is_kept))
    returning 1
  )
  select
    coalesce(sum(deltas), 0), coalesce(jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind, 'arrived', arrived)), '[]'),
    (select count(*) from folded),
    stint.folding_snapshot(v_end)                  -- in the statement that takes them, so that it is the very snapshot
  into v_folded, v_changed, v_rows, v_snapshot
  from (select queue, kind, sum(deltas) as deltas, sum(arrived) as arrived from summed group by queue, kind) k;
  -- Also where nothing was said: a chart carries on what it last knew, and that a job is taken, or given back, nobody says.
  v_frame := p_sample and v_last.framed_at < stint.step_of(clock_timestamp(), 3600);
  if v_folded = 0 and not v_together and not v_frame and not (p_sample and (v_last.to_sample <> '[]' or exists (
    select from stint.job l where l.state = 'running' and l.lease_until >= stint.by_index('-infinity'::timestamptz)
  ))) then
    return 0;
  end if;

  if p_sample then
    -- The depth is right already: what was taken is in the sums.
    with changed as (
      -- What a sample left out, and what ran then: that a job is taken, or given back, is not told.
      select queue, kind, sum(arrived) as arrived
      from jsonb_to_recordset(v_changed || v_last.to_sample) as c (queue text, kind text, arrived bigint)
      group by queue, kind
    ), every as materialized (
      select d.queue, d.kind, d.priority, d.ready, d.running from stint.depth d where d.ready > 0 or d.running > 0
    ), depth as materialized (
      -- Of a queue that changed, all kinds; the others are as they were. Once an hour all, so that nobody has to look further back.
      select e.*
      from every e
      where v_frame or e.queue in (select c.queue from changed c union all select r.queue from every r where r.running > 0)
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
    select
      coalesce(jsonb_agg(jsonb_build_object(
        'queue', queue, 'kind', kind, 'arrived', coalesce(c.arrived, 0), 'ready', coalesce(d.ready, 0),
        'running', coalesce(d.running, 0), 'oldest_ready_ms', case when o.ms is not null then greatest(o.ms, 0) end)), '[]'),
      coalesce(jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind)) filter (where d.running > 0), '[]')
    into v_points, v_to_sample
    from (select queue, kind, sum(ready) as ready, sum(running) as running from depth group by queue, kind) d
    full join changed c using (queue, kind)
    left join oldest o using (queue);
  else
    select
      coalesce(jsonb_agg(to_jsonb(c)) filter (where c.arrived > 0), '[]'),
      coalesce(jsonb_agg(distinct jsonb_build_object('queue', c.queue, 'kind', c.kind)), '[]')
    into v_points, v_to_sample
    from jsonb_to_recordset(v_changed || v_last.to_sample) as c (queue text, kind text, arrived bigint);
  end if;
  perform stint.record_series(v_points);

  delete from stint.tally_fold f where f.fold = v_last.fold;
  insert into stint.tally_fold (fold, base, together, added, snapshot, home, at, framed_at, to_sample)
  values (
    v_last.fold + 1, case when v_together then v_last.fold + 1 else v_last.base end, case when v_together then v_rows else v_last.together end,
    case when v_together then 0 else v_last.added + v_rows end, v_snapshot, v_last.home, clock_timestamp(),
    case when v_frame then clock_timestamp() else v_last.framed_at end, v_to_sample);
  return v_folded;
end
$$;

select stint.recount();

-- Functions are open to everybody unless it is said otherwise.
revoke all on all functions in schema stint from public;
