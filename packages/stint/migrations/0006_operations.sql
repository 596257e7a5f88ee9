-- What happened when, how workers are, and bulk work that people began.
-- oldest code: 1

-- ---- What happened when ----------------------------------------------------------------------------

-- Counted in steps of ten seconds, and rolled up to a minute, ten minutes and an hour when these are over. A row is of the moment its
-- counts were sent, up to ten seconds after they were counted.
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
  -- How often what lasted how long, by the bounds of src/telemetry/histogram.ts. Null: nothing.
  wait        integer[],
  wait_ms     double precision not null default 0,
  longest_wait_ms double precision,                -- of the attempts that began within the step; null: none did
  run         integer[],
  run_ms      double precision not null default 0,
  -- As last sampled within the step; null where nothing was, which is where nothing changed. The age is that of the whole queue.
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

create aggregate stint.sum_buckets(integer[]) (sfunc = stint.add_buckets, stype = integer[]);

-- Adds to the ten seconds of this moment. `p_rows` is an array of objects with the columns above; what is left out is zero. Workers
-- write nothing wider: what all of them add to for an hour would have thousands of old versions while somebody's transaction is open.
create function stint.record_series(p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.series as s (
    step, at, queue, kind, arrived, claimed, succeeded, failed, timed_out, retried, dead, cancelled, snoozed, released, rescued,
    lease_lost, slow, attempts_of_succeeded, wait, wait_ms, longest_wait_ms, run, run_ms, ready, running, oldest_ready_ms
  )
  select
    10, stint.step_of(clock_timestamp(), 10), r.queue, r.kind, coalesce(r.arrived, 0), coalesce(r.claimed, 0),
    coalesce(r.succeeded, 0), coalesce(r.failed, 0), coalesce(r.timed_out, 0), coalesce(r.retried, 0), coalesce(r.dead, 0),
    coalesce(r.cancelled, 0), coalesce(r.snoozed, 0), coalesce(r.released, 0), coalesce(r.rescued, 0), coalesce(r.lease_lost, 0),
    coalesce(r.slow, 0), coalesce(r.attempts_of_succeeded, 0), r.wait, coalesce(r.wait_ms, 0), r.longest_wait_ms, r.run,
    coalesce(r.run_ms, 0), r.ready, r.running, r.oldest_ready_ms
  from jsonb_to_recordset(p_rows) as r (
    queue text, kind text, arrived bigint, claimed bigint, succeeded bigint, failed bigint, timed_out bigint, retried bigint,
    dead bigint, cancelled bigint, snoozed bigint, released bigint, rescued bigint, lease_lost bigint, slow bigint,
    attempts_of_succeeded bigint, wait integer[], wait_ms double precision, longest_wait_ms double precision, run integer[],
    run_ms double precision, ready bigint, running bigint, oldest_ready_ms double precision
  )
  -- Everybody in one order: two workers that send the same kinds at once would otherwise wait for each other.
  order by r.queue collate "C", r.kind collate "C"
  on conflict (step, at, queue, kind) do update set
    arrived = s.arrived + excluded.arrived, claimed = s.claimed + excluded.claimed, succeeded = s.succeeded + excluded.succeeded,
    failed = s.failed + excluded.failed, timed_out = s.timed_out + excluded.timed_out, retried = s.retried + excluded.retried,
    dead = s.dead + excluded.dead, cancelled = s.cancelled + excluded.cancelled, snoozed = s.snoozed + excluded.snoozed,
    released = s.released + excluded.released, rescued = s.rescued + excluded.rescued,
    lease_lost = s.lease_lost + excluded.lease_lost, slow = s.slow + excluded.slow,
    attempts_of_succeeded = s.attempts_of_succeeded + excluded.attempts_of_succeeded,
    wait = stint.add_buckets(s.wait, excluded.wait), wait_ms = s.wait_ms + excluded.wait_ms,
    longest_wait_ms = greatest(s.longest_wait_ms, excluded.longest_wait_ms),
    run = stint.add_buckets(s.run, excluded.run), run_ms = s.run_ms + excluded.run_ms,
    ready = coalesce(excluded.ready, s.ready), running = coalesce(excluded.running, s.running),
    oldest_ready_ms = case when excluded.ready is null then s.oldest_ready_ms else excluded.oldest_ready_ms end;
end
$$;

-- Rolls up what is over: minutes from their ten seconds, ten minutes from those, hours from those. What is later than the newest row of a
-- step has not been rolled up to it, and readers take it from the narrower ones. Half a minute late, for what was sent in time and has not
-- been committed; what comes later than that is missing in the wider steps.
create function stint.roll_up_series() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_until  timestamptz := clock_timestamp() - interval '30 seconds';
  v_step   integer;
  v_from   timestamptz;
  v_rows   integer;
  v_rolled integer := 0;
begin
  -- Two at once would both write a minute. Folds hold it already.
  if not pg_try_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint)) then
    return 0;
  end if;
  foreach v_step in array array[60, 600, 3600] loop
    select s.at + v_step * interval '1 second' into v_from
    from stint.series s
    where s.step = v_step
    order by s.at desc
    limit 1;
    insert into stint.series (
      step, at, queue, kind, arrived, claimed, succeeded, failed, timed_out, retried, dead, cancelled, snoozed, released, rescued,
      lease_lost, slow, attempts_of_succeeded, wait, wait_ms, longest_wait_ms, run, run_ms, ready, running, oldest_ready_ms
    )
    select
      v_step, stint.step_of(s.at, v_step) as at, s.queue, s.kind, sum(s.arrived), sum(s.claimed), sum(s.succeeded), sum(s.failed),
      sum(s.timed_out), sum(s.retried), sum(s.dead), sum(s.cancelled), sum(s.snoozed), sum(s.released), sum(s.rescued),
      sum(s.lease_lost), sum(s.slow), sum(s.attempts_of_succeeded), stint.sum_buckets(s.wait), sum(s.wait_ms), max(s.longest_wait_ms),
      stint.sum_buckets(s.run), sum(s.run_ms),
      (array_agg(s.ready order by s.at desc) filter (where s.ready is not null))[1],
      (array_agg(s.running order by s.at desc) filter (where s.ready is not null))[1],
      -- As of the end of the wider step, as everybody reads it: who waited when it was sampled waits still.
      (array_agg(
        s.oldest_ready_ms + 1000 * extract(epoch from
          stint.step_of(s.at, v_step) + v_step * interval '1 second' - s.at - s.step * interval '1 second')
        order by s.at desc) filter (where s.ready is not null))[1]
    from stint.series s
    where s.step = case v_step when 60 then 10 when 600 then 60 else 600 end
      and s.at >= stint.by_index(coalesce(v_from, '-infinity'::timestamptz)) and s.at < stint.step_of(v_until, v_step)
    group by 2, s.queue, s.kind
    -- Where the clock was put back.
    on conflict (step, at, queue, kind) do nothing;
    get diagnostics v_rows = row_count;
    v_rolled := v_rolled + v_rows;
  end loop;
  return v_rolled;
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

-- ---- Workers and kinds -----------------------------------------------------------------------------

-- How it is, as it last said itself: busy, slots, waiting, lagMs, rssBytes.
alter table stint.worker add column vitals jsonb;

-- What the kind's attempts get unless a job has its own.
alter table stint.kind add column lease_ms bigint, add column timeout_ms bigint;

-- The oldest dead job of each queue.
create index history_dead_queue on stint.history_dead (queue, finished_at);

-- ---- How many workers ------------------------------------------------------------------------------

-- The name or the pattern under which pools, an object with slots by queue, serve a queue: its own name, then the longest pattern that
-- matches it. Null if they do not serve it. In a pattern `*` matches any characters, also none.
create function stint.served_as(p_pools jsonb, p_queue text) returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select case when p_pools ? p_queue then p_queue else (
    select key
    from jsonb_object_keys(p_pools) as key
    where strpos(key, '*') > 0
      -- No backslash: a role may read it as the start of an escape.
      and p_queue like replace(replace(replace(replace(key, '!', '!!'), '%', '!%'), '_', '!_'), '*', '%') escape '!'
    order by length(key) desc, key
    limit 1
  ) end
$$;

-- How many workers with these pools are needed to be done with what is ready within `p_target`, while keeping up with what arrives: for an
-- autoscaler, so never null. `p_pools` is an array of objects with queues, names or patterns, and slots. How long a job takes and how many
-- arrive is what it was in the last ten minutes; a job that nobody has run lately is taken for a second of work. A slot that is busy is needed.
create function stint.workers_needed(p_pools jsonb, p_target interval default '5 minutes') returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  with pool as materialized (
    select p.ordinality as pool, queue, (p.value ->> 'slots')::integer as slots
    from jsonb_array_elements(p_pools) with ordinality as p
    cross join jsonb_array_elements_text(p.value -> 'queues') as queue
  ), every as materialized (
    select coalesce(jsonb_object_agg(queue, 0), '{}') as pools, coalesce(bool_or(strpos(queue, '*') > 0), false) as has_patterns from pool
  ), lately as (
    select s.queue, s.kind, sum(s.arrived) as arrived, sum(s.run_ms) / 1000 as run_s, sum((select sum(n) from unnest(s.run) as n)) as runs
    from stint.series s
    where s.step = 10
      and s.at > stint.by_index(statement_timestamp() - interval '10 minutes')
      and (s.queue in (select p.queue from pool p) or (select e.has_patterns from every e))
    group by s.queue, s.kind
  ), depth as (
    select d.queue, d.kind, sum(d.ready) as ready, sum(d.running) as running
    from stint.depth d
    where d.queue in (select p.queue from pool p) or (select e.has_patterns from every e)
    group by d.queue, d.kind
  ), work as materialized (
    select
      queue, coalesce(l.arrived, 0) / 600 as per_s, coalesce(l.run_s / nullif(l.runs, 0), 1) as takes_s,
      coalesce(d.ready, 0) as ready, coalesce(d.running, 0) as running
    from lately l
    full join depth d using (queue, kind)
  ), served as materialized (
    select q.queue, stint.served_as(e.pools, q.queue) as served_as
    from (select distinct queue from work) q
    cross join every e
  ), needed as (
    select p.slots, sum(greatest(w.per_s * w.takes_s, w.running) + w.ready * w.takes_s / extract(epoch from p_target)) as busy
    from pool p
    join served s on s.served_as = p.queue
    join work w on w.queue = s.queue
    group by p.pool, p.slots
  )
  select coalesce(max(ceil(least(busy / nullif(slots, 0), 1000000)))::integer, 0) from needed
$$;

-- ---- Bulk work: what it was to touch, why, and how far it came --------------------------------------

create table stint.operation (
  id              uuid primary key,
  action          text not null check (action in ('cancel', 'run-now', 'replay')),
  filter          jsonb not null,
  reason          text not null,
  actor           text not null,
  -- What is `running` and has not progressed for a minute is shown as abandoned: its process died.
  state           text not null default 'running' check (state in ('running', 'finished', 'aborted', 'abandoned')),
  matched         integer not null,
  matched_capped  boolean not null,
  done            integer not null default 0,
  skipped         integer not null default 0,      -- no longer in a state for it when their turn came
  cursor          uuid,                            -- the walk goes on below this id
  -- What matched at this moment is acted on: that of the preview, where there was one. Jobs that came later are left alone.
  as_of           timestamptz not null default clock_timestamp(),
  abort_requested boolean not null default false,
  error           text,                            -- why it was abandoned, where that is known
  created_at      timestamptz not null default clock_timestamp(),
  progressed_at   timestamptz not null default clock_timestamp(),
  ended_at        timestamptz
);
create index operation_created on stint.operation (created_at);

-- The newest jobs below an id and from another on, whatever they are, newest first: a window for those who look for something
-- in it. It costs as much as it has rows, however many jobs there are and whatever the statistics say, because nothing but
-- reading the primary keys in their order is allowed to the planner. The lower end is for what the rows do not show: the
-- entries of jobs long gone, which somebody's open transaction keeps. No payload and no result: both may be megabytes.
create function stint.newest_between(p_before uuid, p_from uuid, p_live boolean, p_done boolean, p_dead boolean, p_rows integer)
returns table (
  id uuid, kind text, queue text, state stint.job_state, priority smallint, run_at timestamptz, created_at timestamptz,
  finished_at timestamptz, attempts integer, max_attempts integer, crashes integer, run integer, worker text,
  claimed_at timestamptz, key text, tenant text, tags text[], reason text, log jsonb
)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_sort = off
set enable_incremental_sort = off
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
as $$
  (
    select
      id, kind, queue, state, priority, run_at, created_at, null::timestamptz as finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, reason, log
    from stint.job
    where p_live and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  union all
  -- The states are written out, so that only the partitions they are in are looked at.
  (
    select
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, reason, log
    from stint.history
    where p_done and state in ('succeeded', 'cancelled') and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  union all
  (
    select
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, reason, log
    from stint.history
    where p_dead and state = 'dead' and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  order by id desc
  limit p_rows
$$;

-- Functions are open to everybody unless it is said otherwise.
revoke all on all functions in schema stint from public;
