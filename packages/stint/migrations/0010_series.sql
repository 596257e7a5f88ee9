-- What happened when: counts of each queue and kind over time, and the busiest tenants.
-- oldest code: 1

-- Workers write steps of 10 seconds. Folds roll them up to a minute, 10 minutes and an hour once those are over.
-- A row holds the counts that were sent within its step, up to 10 seconds after they were counted.
--
-- Every `bigint not null` or `double precision not null` column is a sum. The functions below find the sums in the catalog, so a new
-- counter needs one column here and one line in src/model/counters.ts.
create table stint.series (
  step        integer not null check (step in (10, 60, 600, 3600)),
  at          timestamptz not null,                -- when the step began
  queue       text not null,
  kind        text not null,
  arrived     bigint not null default 0,           -- counted by folds, from the tallies; the other counters by workers
  existing    bigint not null default 0,           -- enqueues that created no job, by what they did instead; counted by folds
  replaced    bigint not null default 0,
  deferred    bigint not null default 0,
  claimed     bigint not null default 0,
  succeeded   bigint not null default 0,
  failed      bigint not null default 0,
  timed_out   bigint not null default 0,
  retried     bigint not null default 0,
  dead        bigint not null default 0,
  cancelled   bigint not null default 0,
  snoozed     bigint not null default 0,
  parked      bigint not null default 0,
  released    bigint not null default 0,
  rescued     bigint not null default 0,
  lease_lost  bigint not null default 0,
  slow        bigint not null default 0,
  stalled     bigint not null default 0,
  expired     bigint not null default 0,
  attempts_of_succeeded bigint not null default 0,
  -- Histograms with the bounds of src/telemetry/histogram.ts. Null: no values.
  wait        integer[],
  wait_ms     double precision not null default 0,
  longest_wait_ms double precision,                -- of the attempts that began within the step; null: none did
  run         integer[],
  run_ms      double precision not null default 0,
  -- The last sample within the step; null: none was taken, because nothing changed. The age is that of the whole queue.
  ready       bigint,
  running     bigint,
  oldest_ready_ms double precision,
  primary key (step, at, queue, kind)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The tenants with most ended attempts, in steps of 10 minutes. Each worker sends only its busiest, so this is a trend, not an account.
create table stint.tenant_usage (
  at     timestamptz not null,
  tenant text not null,
  ended  bigint not null,
  run_ms double precision not null,
  primary key (at, tenant)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- The start of the step that a time falls into.
create function stint.step_of(p_at timestamptz, p_step integer) returns timestamptz
language sql immutable parallel safe
as $$
  select to_timestamp(floor(extract(epoch from p_at) / p_step) * p_step)
$$;

-- Adds two histograms, bucket by bucket.
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

-- The sums of the series as SQL text, in column order: each column put into `p_format`, separated by commas.
create function stint.series_sums(p_format text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select string_agg(format(p_format, a.attname), ', ' order by a.attnum)
  from pg_attribute a
  where a.attrelid = 'stint.series'::regclass and a.attnum > 0 and not a.attisdropped and a.attnotnull
    and a.atttypid in ('bigint'::regtype, 'double precision'::regtype)
$$;

-- Adds to the current step of 10 seconds. `p_rows` is an array of objects with the columns of the series; a missing column is zero.
-- Workers never write wider steps: a row that every worker updates for an hour would leave thousands of dead versions behind an
-- open transaction.
create function stint.record_series(p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  execute format($sql$
    insert into stint.series as s (
      step, at, queue, kind, %1$s, wait, longest_wait_ms, run, ready, running, oldest_ready_ms)
    select
      10, stint.step_of(clock_timestamp(), 10), r.queue, r.kind, %2$s, r.wait, r.longest_wait_ms, r.run, r.ready, r.running,
      r.oldest_ready_ms
    from jsonb_populate_recordset(null::stint.series, $1) as r
    -- The same order in every session: two workers that send the same kinds at once would otherwise deadlock.
    order by r.queue collate "C", r.kind collate "C"
    on conflict (step, at, queue, kind) do update set
      %3$s,
      wait = stint.add_buckets(s.wait, excluded.wait),
      longest_wait_ms = greatest(s.longest_wait_ms, excluded.longest_wait_ms),
      run = stint.add_buckets(s.run, excluded.run),
      ready = coalesce(excluded.ready, s.ready), running = coalesce(excluded.running, s.running),
      oldest_ready_ms = case when excluded.ready is null then s.oldest_ready_ms else excluded.oldest_ready_ms end
  $sql$, stint.series_sums('%I'), stint.series_sums('coalesce(r.%I, 0)'), stint.series_sums('%1$I = s.%1$I + excluded.%1$I'))
  using p_rows;
end
$$;

-- Rolls up steps that are over: minutes from their 10 seconds, 10 minutes from minutes, hours from 10 minutes. The newest row of a step
-- says how far it is rolled up; readers take later counts from the narrower steps. A step is rolled up half a minute after its end,
-- when counts that were sent in time have been committed. Counts that commit even later are missing in the wider steps.
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
  -- Two sessions would both write the same minute. A fold holds this lock already.
  if not pg_try_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint)) then
    return 0;
  end if;
  foreach v_step in array array[60, 600, 3600] loop
    select s.at + v_step * interval '1 second' into v_from
    from stint.series s
    where s.step = v_step
    order by s.at desc
    limit 1;
    execute format($sql$
      insert into stint.series (step, at, queue, kind, %1$s, wait, longest_wait_ms, run, ready, running, oldest_ready_ms)
      select
        $1, stint.step_of(s.at, $1) as at, s.queue, s.kind, %2$s,
        stint.sum_buckets(s.wait), max(s.longest_wait_ms), stint.sum_buckets(s.run),
        (array_agg(s.ready order by s.at desc) filter (where s.ready is not null))[1],
        (array_agg(s.running order by s.at desc) filter (where s.ready is not null))[1],
        -- As of the end of the wider step: a job that waited at the sample is taken to be waiting still.
        (array_agg(
          s.oldest_ready_ms + 1000 * extract(epoch from
            stint.step_of(s.at, $1) + $1 * interval '1 second' - s.at - s.step * interval '1 second')
          order by s.at desc) filter (where s.ready is not null))[1]
      from stint.series s
      where s.step = case $1 when 60 then 10 when 600 then 60 else 600 end
        and s.at >= stint.by_index($2) and s.at < stint.step_of($3, $1)
      group by 2, s.queue, s.kind
      -- The row exists where the clock was set back.
      on conflict (step, at, queue, kind) do nothing
    $sql$, stint.series_sums('%I'), stint.series_sums('sum(s.%I)'))
    using v_step, coalesce(v_from, '-infinity'::timestamptz), v_until;
    get diagnostics v_rows = row_count;
    v_rolled := v_rolled + v_rows;
  end loop;
  return v_rolled;
end
$$;

-- Adds to the current 10 minutes of each tenant.
create function stint.record_tenants(p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.tenant_usage as u (at, tenant, ended, run_ms)
  select stint.step_of(clock_timestamp(), 600), r.tenant, r.ended, r.run_ms
  from jsonb_to_recordset(p_rows) as r (tenant text, ended bigint, run_ms double precision)
  order by r.tenant collate "C"                    -- as in record_series
  on conflict (at, tenant) do update set ended = u.ended + excluded.ended, run_ms = u.run_ms + excluded.run_ms;
end
$$;

select stint.revoke_new_functions();
