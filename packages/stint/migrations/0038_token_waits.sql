-- Jobs that wait for tokens of a dependency are let in, and a 429 holds all of them back.
-- oldest code: 1

-- Tokens that are kept for jobs which were let in a moment ago, and whose worker will take them.
create function stint.reserved_of(p_name text, p_at timestamptz) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(sum(w.cost), 0)::bigint
  from stint.dependency_wait w
  where w.dependency = p_name and w.let_in_at > p_at - interval '5 seconds'
$$;

-- The first of the jobs that wait, without those whose cost exceeds what the dependency can ever give at once: they wait for a change of its settings.
create function stint.first_wait(p_of stint.dependency) returns stint.dependency_wait
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select w.*
  from stint.dependency_wait w
  where w.dependency = p_of.name and w.let_in_at is null
    and w.cost <= coalesce((p_of.settings #>> '{rate,burst}')::bigint, w.cost) and w.cost <= coalesce((p_of.settings #>> '{quota,limit}')::bigint, w.cost)
  order by w.priority, w.run_at, w.seq
  limit 1
$$;

-- When tend_dependencies has something to do: a waiting job can be let in, or the concurrency can be raised. Null: nothing.
create function stint.dependency_due(p_name text, p_at timestamptz) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of       stint.dependency;
  v_wait     stint.dependency_wait;
  v_reserved constant bigint := stint.reserved_of(p_name, p_at);
  v_missing  numeric;
  v_due      timestamptz;
begin
  select d.* into v_of from stint.dependency d where d.name = p_name;
  v_wait := stint.first_wait(v_of);
  if v_wait.job_id is not null then
    v_due := greatest(p_at, v_of.slow_until);
    if stint.is_paused_dependency(p_name) then
      v_due := greatest(v_due, p_at + interval '1 second');
    end if;
    v_missing := (v_wait.cost + v_reserved) * (v_of.settings #>> '{rate,perMs}')::numeric * 1000 - stint.credit_of(v_of, p_at);
    if v_missing > 0 then
      v_due := greatest(v_due, p_at + make_interval(secs => (ceil(v_missing / (v_of.settings #>> '{rate,limit}')::numeric) / 1000000)::float8));
    end if;
    if v_wait.cost + v_reserved > stint.quota_left(v_of, p_at) then
      v_due := greatest(v_due, stint.quota_end(v_of, p_at));
    end if;
    -- If the first job is cancelled, those behind it may need fewer tokens.
    if v_wait.cost > 1 and exists (select from stint.dependency_wait w where w.dependency = p_name and w.let_in_at is null and w.job_id <> v_wait.job_id) then
      v_due := least(v_due, greatest(p_at, v_of.slow_until) + interval '5 seconds');
    end if;
    -- Jobs that were let in and that no worker claims keep their tokens for 5 seconds only.
    if v_reserved > 0 then
      v_due := least(v_due, greatest(p_at, v_of.slow_until) + interval '5 seconds');
    end if;
  end if;
  if v_of.effective < (v_of.settings #>> '{concurrency,max}')::integer then
    v_due := least(v_due, stint.raise_at(v_of));
  end if;
  return v_due;
end
$$;

-- When a lowered concurrency is raised by one.
create function stint.raise_at(p_of stint.dependency) returns timestamptz
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select greatest(p_of.slow_until, p_of.slowed_at, p_of.raised_at) + (p_of.settings #>> '{concurrency,recoverMs}')::bigint * interval '1 millisecond'
$$;

-- Makes the first of the jobs that wait for a dependency ready, as far as `p_tokens` suffice; null: any number. Returns the queue of each.
create function stint.let_in_for_tokens(p_of stint.dependency, p_now timestamptz, p_tokens bigint) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_first  uuid[];
  v_let_in uuid[];
  v_queues text[];
begin
  v_first := array(
    select w.job_id
    from (
      select w.job_id, sum(w.cost) over (order by w.priority, w.run_at, w.seq rows unbounded preceding) as needed
      from (
        select w.job_id, w.cost, w.priority, w.run_at, w.seq
        from stint.dependency_wait w
        where w.dependency = stint.by_index((select p_of.name)) and w.let_in_at is null
          and w.cost <= coalesce((p_of.settings #>> '{rate,burst}')::bigint, w.cost) and w.cost <= coalesce((p_of.settings #>> '{quota,limit}')::bigint, w.cost)
        order by w.priority, w.run_at, w.seq
        limit 1000
      ) w
    ) w
    where p_tokens is null or w.needed <= p_tokens);
  if v_first = '{}' then
    return '{}';
  end if;
  with free as materialized (
    select j.id from stint.job j where j.id = any (v_first) and j.state = 'parked' and j.park_reason = 'limit' for update skip locked
  ), let_in as (
    -- Not before now: claims do not look behind the jobs that they have taken. But a job behind a long row of ready jobs that need the same tokens would let
    -- the bucket overflow: it goes before them, where the sweeps of workers find it.
    update stint.job j
    set state = 'ready', park_reason = null,
        run_at = case when p_of.backlog_at > p_now - interval '2 seconds' then j.run_at else greatest(j.run_at, clock_timestamp()) end
    from free f
    where j.id = f.id
    returning j.id, j.queue, j.kind, j.priority
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, parked)
    select l.queue, l.kind, l.priority, - count(*) from let_in l group by l.queue, l.kind, l.priority
  )
  select array_agg(l.id), array_agg(l.queue) into v_let_in, v_queues from let_in l;
  update stint.dependency_wait w set let_in_at = p_now where w.job_id = any (v_let_in);
  -- The others have ended or were deleted; or another session has locked them, and they are looked at again.
  delete from stint.dependency_wait w
  where w.job_id = any (v_first) and w.job_id <> all (coalesce(v_let_in, '{}'))
    and not exists (select from stint.job j where j.id = w.job_id and j.state = 'parked' and j.park_reason = 'limit');
  return coalesce(v_queues, '{}');
end
$$;

-- Under the lock of the dependency: forgets waiting jobs that have ended, until the first one is alive. The others would wait for its tokens.
create function stint.forget_ended_waits(p_of stint.dependency) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_first stint.dependency_wait;
begin
  loop
    v_first := stint.first_wait(p_of);
    exit when v_first.job_id is null or exists (select from stint.job j where j.id = v_first.job_id and j.state = 'parked' and j.park_reason = 'limit');
    delete from stint.dependency_wait w
    where w.job_id = any (array(
        select f.job_id from stint.dependency_wait f where f.dependency = p_of.name and f.let_in_at is null order by f.priority, f.run_at, f.seq limit 1000))
      and not exists (select from stint.job j where j.id = w.job_id and j.state = 'parked' and j.park_reason = 'limit');
    exit when not found;
  end loop;
end
$$;

-- Under the lock of the dependency: raises a lowered concurrency, and lets in the jobs for which there are tokens. Returns the queue of each.
create function stint.tend_dependency(p_of stint.dependency) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now    constant timestamptz := clock_timestamp();
  v_queues text[] := '{}';
begin
  if p_of.effective < (p_of.settings #>> '{concurrency,max}')::integer and v_now >= stint.raise_at(p_of) then
    update stint.dependency d set effective = d.effective + 1, raised_at = v_now where d.name = p_of.name;
    perform stint.apply_concurrency(p_of.name);
  end if;
  perform stint.forget_ended_waits(p_of);
  if (p_of.slow_until is null or p_of.slow_until <= v_now) and not stint.is_paused_dependency(p_of.name) then
    v_queues := stint.let_in_for_tokens(p_of, v_now,
      least(stint.tokens_of(p_of, v_now), stint.quota_left(p_of, v_now)) - stint.reserved_of(p_of.name, v_now));
  end if;
  update stint.dependency d set next_at = stint.dependency_due(d.name, v_now) where d.name = p_of.name;
  return v_queues;
end
$$;

-- For upkeep: makes waiting jobs ready for which there are tokens, in their order, and raises lowered concurrencies. Returns the queue of each of
-- those jobs, and the milliseconds until there is more to do; null: nothing waits.
create function stint.tend_dependencies(out queues text[], out next_ms float8)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of stint.dependency;
begin
  queues := '{}';
  for v_of in
    select d.* from stint.dependency d where d.next_at <= clock_timestamp() order by d.next_at limit 100 for no key update skip locked
  loop
    queues := queues || stint.tend_dependency(v_of);
  end loop;
  select extract(epoch from min(d.next_at) - clock_timestamp()) * 1000 into next_ms from stint.dependency d;
end
$$;

-- A system asked for a pause of `p_ms` milliseconds: no job that calls it starts before. A job that began after the last halving of the concurrency halves
-- it; many jobs that are refused at once halve it once. A call that arrives after `p_before` changes nothing.
create function stint.slow_dependencies(p_names text[], p_ms bigint, p_since timestamptz, p_before timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of  stint.dependency;
  v_now timestamptz;
begin
  for v_of in select d.* from stint.dependency d where d.name = any (p_names) order by d.name for no key update loop
    v_now := clock_timestamp();
    exit when v_now > p_before;
    update stint.dependency d
    set slow_until = greatest(d.slow_until, v_now + p_ms * interval '1 millisecond'), next_at = v_now,
        effective = case when p_since > coalesce(d.slowed_at, '-infinity') then greatest((d.settings #>> '{concurrency,min}')::integer, d.effective / 2) else d.effective end,
        slowed_at = case when p_since > coalesce(d.slowed_at, '-infinity') then v_now else d.slowed_at end
    where d.name = v_of.name;
    perform stint.apply_concurrency(v_of.name);
  end loop;
end
$$;

-- About how long a new job would wait for its tokens, in milliseconds, behind the jobs that are ready or wait for tokens. Ready jobs count with the
-- average cost of those that wait. 0 for a dependency that does not exist.
create function stint.dependency_delay(p_name text) returns double precision
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now   constant timestamptz := clock_timestamp();
  v_of    stint.dependency;
  v_ready numeric;
  v_owed  numeric;
  v_each  numeric;
  v_left  bigint;
  v_ms    double precision;
begin
  select d.* into v_of from stint.dependency d where d.name = p_name;
  if not found then
    return 0;
  end if;
  select coalesce(sum(w.cost), 0), coalesce(avg(w.cost), 1) into v_owed, v_each from stint.dependency_wait w where w.dependency = p_name;
  select coalesce(sum(d.ready), 0) into v_ready
  from stint.depth d
  where d.kind in (select k.kind from stint.kind_dependency k where k.dependency = p_name);
  v_owed := v_owed + v_ready * v_each;
  v_ms := greatest(0, extract(epoch from v_of.slow_until - v_now) * 1000);
  if v_of.settings ? 'rate' then
    v_ms := v_ms + greatest(0, (v_owed * (v_of.settings #>> '{rate,perMs}')::numeric * 1000 - stint.credit_of(v_of, v_now))
      / (v_of.settings #>> '{rate,limit}')::numeric / 1000);
  end if;
  v_left := stint.quota_left(v_of, v_now);
  if v_owed > v_left then
    -- The rest of this window, and whole windows after it.
    v_ms := greatest(v_ms, extract(epoch from stint.quota_end(v_of, v_now) - v_now) * 1000
      + floor((v_owed - v_left) / (v_of.settings #>> '{quota,limit}')::numeric)
        * extract(epoch from ('1 ' || (v_of.settings #>> '{quota,per}'))::interval) * 1000);
  end if;
  return v_ms;
end
$$;

-- Whether a pause keeps workers from claiming jobs of this queue and kind.
create function stint.is_claim_paused(p_queue text, p_kind text) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select
    from stint.pause p
    where (p.until is null or p.until > clock_timestamp())
      and case p.scope
        when 'queue' then stint.served_as(jsonb_build_object(p.name, 0), p_queue) is not null
        when 'kind' then stint.served_as(jsonb_build_object(p.name, 0), p_kind) is not null
        when 'dependency' then exists (select from stint.kind_dependency k where k.kind = p_kind and k.dependency = p.name)
        else false
      end)
$$;

select stint.revoke_new_functions();
