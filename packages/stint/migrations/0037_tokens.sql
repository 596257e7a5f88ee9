-- Tokens of dependencies: read from the bucket and the quota, and taken just before a job starts.
-- oldest code: 1

-- ---- Reading a bucket ------------------------------------------------------------------------------

-- The units in the bucket at this time; null: it has no rate. A clock that was set back adds nothing.
create function stint.credit_of(p_of stint.dependency, p_at timestamptz) returns numeric
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select least(
    (r.rate ->> 'burst')::numeric * (r.rate ->> 'perMs')::numeric * 1000,
    p_of.credit + greatest(0, trunc(extract(epoch from p_at - p_of.credit_at)::numeric * 1000000)) * (r.rate ->> 'limit')::numeric)
  from (select p_of.settings -> 'rate' as rate) r
  where r.rate is not null
$$;

-- Whole tokens in the bucket at this time; null: any number.
create function stint.tokens_of(p_of stint.dependency, p_at timestamptz) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select floor(stint.credit_of(p_of, p_at) / ((p_of.settings #>> '{rate,perMs}')::numeric * 1000))::bigint
$$;

-- When the window of the quota that includes this time began; null: there is no quota.
create function stint.quota_start(p_of stint.dependency, p_at timestamptz) returns timestamptz
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select date_trunc(p_of.settings #>> '{quota,per}', p_at, p_of.settings #>> '{quota,zone}')
$$;

create function stint.quota_end(p_of stint.dependency, p_at timestamptz) returns timestamptz
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    -- An hour that clocks repeat is two hours.
    when q.per in ('minute', 'hour') then date_trunc(q.per, p_at, q.zone) + ('1 ' || q.per)::interval
    else (date_trunc(q.per, p_at at time zone q.zone) + ('1 ' || q.per)::interval) at time zone q.zone end
  from (select p_of.settings #>> '{quota,per}' as per, p_of.settings #>> '{quota,zone}' as zone) q
$$;

-- What the window of this time has spent. A window never begins again: if the clock is set back, the newer one continues.
create function stint.quota_spent(p_of stint.dependency, p_at timestamptz) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case when p_of.quota_from >= stint.quota_start(p_of, p_at) then p_of.quota_used when p_of.settings ? 'quota' then 0 end
$$;

create function stint.quota_left(p_of stint.dependency, p_at timestamptz) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select (p_of.settings #>> '{quota,limit}')::bigint - stint.quota_spent(p_of, p_at)
$$;

-- How many tokens a second jobs can take on average within the next `p_target_s` seconds; null: any number. For the recommendation of workers.
create function stint.token_supply(p_of stint.dependency, p_target_s float8) returns float8
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when s.open_s <= 0 then 0
    else least(
      stint.tokens_of(p_of, s.at) + s.open_s * 1000 * (p_of.settings #>> '{rate,limit}')::float8 / (p_of.settings #>> '{rate,perMs}')::float8,
      -- The windows that begin within that time, by their share of it.
      greatest(stint.quota_left(p_of, s.at), 0) + (p_of.settings #>> '{quota,limit}')::float8
        * greatest(extract(epoch from s.at + p_target_s * interval '1 second' - stint.quota_end(p_of, s.at)), 0)::float8
        / extract(epoch from stint.quota_end(p_of, s.at) - stint.quota_start(p_of, s.at))::float8
    ) / p_target_s
  end
  from (
    -- The time in which the system accepts calls again.
    select c.at, p_target_s - greatest(coalesce(extract(epoch from p_of.slow_until - c.at)::float8, 0), 0) as open_s
    from (select clock_timestamp() as at) c
  ) s
$$;

create function stint.is_paused_dependency(p_name text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from stint.pause p where p.scope = 'dependency' and p.name = p_name and (p.until is null or p.until > clock_timestamp()))
$$;

-- ---- Taking tokens ---------------------------------------------------------------------------------

-- Takes `p_tokens[i]` tokens of `p_names[i]`, for all jobs of a claim together: the common case, which looks at no job. Returns when they were taken. Null:
-- it took none, because some dependency has too few, or is slow or paused, or jobs wait for it; take_tokens decides for each job then. Also null if a
-- dependency limits its concurrency, unless the jobs hold their places (`p_placed`). A repeat takes tokens again.
create function stint.take_tokens_together(p_names text[], p_tokens bigint[], p_placed boolean) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  perform from stint.dependency d where d.name = any (p_names) order by d.name for no key update;
  v_now := clock_timestamp();
  if exists (
    select
    from stint.dependency d join unnest(p_names, p_tokens) as u (name, tokens) on u.name = d.name
    where d.slow_until > v_now or not p_placed and d.effective is not null
      or u.tokens > stint.tokens_of(d, v_now) or u.tokens > stint.quota_left(d, v_now)
      or exists (select from stint.dependency_wait w where w.dependency = d.name and w.let_in_at is null)
      or exists (select from stint.dependency_wait w where w.dependency = d.name and w.let_in_at is not null)
      or stint.is_paused_dependency(d.name))
  then
    return null;
  end if;
  perform stint.spend_tokens(p_names, p_tokens, v_now);
  return v_now;
end
$$;

-- Under the locks of the dependencies.
create function stint.spend_tokens(p_names text[], p_tokens bigint[], p_at timestamptz) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  update stint.dependency d
  set credit = coalesce(stint.credit_of(d, p_at) - s.spent * (d.settings #>> '{rate,perMs}')::numeric * 1000, 0), credit_at = greatest(d.credit_at, p_at),
      quota_used = coalesce(stint.quota_spent(d, p_at), 0) + s.spent, quota_from = coalesce(greatest(d.quota_from, stint.quota_start(d, p_at)), d.quota_from)
  from unnest(p_names, p_tokens) as s (name, spent)
  where d.name = s.name and s.spent > 0
$$;

-- A worker has claimed these jobs, and is about to start their handlers. The job number `p_of[i]` needs `p_costs[i]` tokens of `p_names[i]`. A job takes
-- all its tokens, or is parked until they are there: no attempt is spent, and nothing is logged. `outcome`: `taken`, `waits`, `cancelled` if a cancel was
-- requested, or `lost` if the fence no longer holds; those take no tokens. `at`: when the tokens were taken; the worker must start the job soon after it.
-- A repeat takes tokens again. Without `p_placed` the jobs hold no places of limits: no row is returned if some dependency limits its concurrency.
create function stint.take_tokens(
  p_ids uuid[], p_epochs bigint[], p_leases uuid[], p_of integer[], p_names text[], p_costs bigint[], p_placed boolean default true)
returns table (id uuid, outcome text, at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz;
  -- One entry for each dependency. Null tokens or quota: any number.
  v_names    text[];
  v_tokens   bigint[];
  v_quota    bigint[];
  v_kept     bigint[];
  v_open     boolean[];
  v_blocked  boolean[];
  v_spent    bigint[];
  v_first_priority smallint[];
  v_first_run_at   timestamptz[];
  v_job      record;
  v_which    integer;
  v_cost     bigint;
  v_full     integer;
  v_taken    uuid[] := '{}';
  v_waits    uuid[] := '{}';
  v_at       text[] := '{}';
  v_costs    bigint[] := '{}';
begin
  -- Tokens change hands only under these locks, which are taken in one order. The clock is read after the wait for them.
  perform from stint.dependency d where d.name = any (p_names) order by d.name for no key update;
  v_now := clock_timestamp();
  if not p_placed and exists (select from stint.dependency d where d.name = any (p_names) and d.effective is not null) then
    return;
  end if;
  select
    array_agg(d.name order by d.name), array_agg(stint.tokens_of(d, v_now) order by d.name), array_agg(stint.quota_left(d, v_now) order by d.name),
    array_agg(stint.reserved_of(d.name, v_now) order by d.name),
    array_agg((d.slow_until is null or d.slow_until <= v_now) and not stint.is_paused_dependency(d.name) order by d.name),
    array_agg(false), array_agg(0::bigint), array_agg(f.priority order by d.name), array_agg(f.run_at order by d.name)
  into v_names, v_tokens, v_quota, v_kept, v_open, v_blocked, v_spent, v_first_priority, v_first_run_at
  from stint.dependency d cross join lateral stint.first_wait(d) f
  where d.name = any (p_names);

  for v_job in
    select
      j.id, j.park_reason, coalesce(w.priority, j.priority) as priority, coalesce(w.run_at, j.run_at) as run_at, w.dependency, w.cost as kept,
      coalesce(w.let_in_at > v_now - interval '5 seconds', false) as let_in, coalesce(u.which, '{}') as which, u.costs
    from unnest(p_ids, p_epochs, p_leases) with ordinality as m (id, epoch, lease_id, number)
    join stint.job j on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id and not j.cancel_requested
    left join stint.dependency_wait w on w.job_id = j.id
    left join (
      select u.number, array_agg(array_position(v_names, u.name) order by u.name) as which, array_agg(u.cost order by u.name) as costs
      from unnest(p_of, p_names, p_costs) as u (number, name, cost)
      where u.name = any (v_names)
      group by u.number
    ) u on u.number = m.number
    order by let_in desc, 3, 4, j.id
  loop
    v_full := null;
    for v_i in 1 .. cardinality(v_job.which) loop
      v_which := v_job.which[v_i];
      v_cost := v_job.costs[v_i];
      if not v_open[v_which] or v_cost > v_quota[v_which] or v_cost > v_tokens[v_which] then
        v_full := v_i;
      -- A job that was let in has its tokens kept. Another one does not pass those that wait for the same dependency.
      elsif v_cost > 0 and not (v_job.let_in and v_job.dependency = v_names[v_which])
        and (v_blocked[v_which] or v_cost > v_tokens[v_which] - v_kept[v_which] or (v_first_priority[v_which], v_first_run_at[v_which]) <= (v_job.priority, v_job.run_at))
      then
        v_full := v_i;
      end if;
      exit when v_full is not null;
    end loop;
    if v_job.let_in then
      v_which := array_position(v_names, v_job.dependency);
      v_kept[v_which] := v_kept[v_which] - v_job.kept;
    end if;
    if v_full is null then
      for v_i in 1 .. cardinality(v_job.which) loop
        v_which := v_job.which[v_i];
        v_tokens[v_which] := v_tokens[v_which] - v_job.costs[v_i];
        v_quota[v_which] := v_quota[v_which] - v_job.costs[v_i];
        v_spent[v_which] := v_spent[v_which] + v_job.costs[v_i];
      end loop;
      v_taken := v_taken || v_job.id;
    else
      v_which := v_job.which[v_full];
      v_blocked[v_which] := true;
      v_waits := v_waits || v_job.id;
      v_at := v_at || v_names[v_which];
      v_costs := v_costs || v_job.costs[v_full];
    end if;
  end loop;

  perform stint.spend_tokens(v_names, v_spent, v_now);
  delete from stint.dependency_wait w
  where w.job_id = any (v_taken)
    -- Jobs that were let in and have ended since, without a worker that claimed them.
    or w.dependency = any (v_names) and w.let_in_at < v_now - interval '5 seconds' and not exists (select from stint.job j where j.id = w.job_id);
  if v_waits <> '{}' then
    perform stint.park_for_tokens(v_waits, p_leases, v_at, v_costs);
  end if;

  return query
    select
      m.id,
      case
        when m.id = any (v_taken) then 'taken' when m.id = any (v_waits) then 'waits'
        when exists (select from stint.job j where j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id) then 'cancelled'
        else 'lost'
      end,
      v_now
    from unnest(p_ids, p_epochs, p_leases) as m (id, epoch, lease_id);
end
$$;

-- Parks running jobs, each at the dependency beside it. Ready jobs of their queues that would come to the same dependencies are parked with them: a long
-- row of such jobs must not hold up the others of their queue.
create function stint.park_for_tokens(p_ids uuid[], p_leases uuid[], p_names text[], p_costs bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_followed uuid[];
  v_behind   bigint;
  v_of       stint.dependency;
  v_queues   text[] := '{}';
begin
  with parked as (
    update stint.job j
    set state = 'parked', park_reason = coalesce(j.park_reason, 'limit'), attempts = j.attempts - 1,
        -- A quarantined job is looked for again later.
        run_at = case when j.park_reason is null then j.run_at else clock_timestamp() end,
        lease_id = null, lease_until = null, worker = null, claimed_at = null
    where j.id = any (p_ids) and j.lease_id = any (p_leases)
    returning j.id, j.queue, j.kind, j.priority, j.run_at, j.park_reason, j.has_follow_ups
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, parked)
    select queue, kind, priority, count(*) from parked group by queue, kind, priority
  ), waiting as (
    -- A quarantined job is claimed from its quarantine again, and does not wait here.
    insert into stint.dependency_wait as w (job_id, dependency, cost, priority, run_at)
    select j.id, p.name, p.cost, j.priority, j.run_at
    from unnest(p_ids, p_names, p_costs) as p (id, name, cost) join parked j on j.id = p.id
    where j.park_reason = 'limit'
    order by j.priority, j.run_at, j.id
    on conflict (job_id) do update set dependency = excluded.dependency, cost = excluded.cost, let_in_at = null
  )
  select array_agg(p.id) filter (where p.has_follow_ups) into v_followed from parked p;

  with head as materialized (
    select j.id, r.name, r.cost, j.priority, j.run_at, j.queue, j.kind
    from (
      select j.queue, array_agg(distinct p.name) as names, max(p.cost) as cost
      from unnest(p_ids, p_names, p_costs) as p (id, name, cost) join stint.job j on j.id = p.id
      group by j.queue
    ) full_at
    cross join lateral (
      select r.id, full_at.cost, (select min(k.dependency) from stint.kind_dependency k where k.kind = r.kind and k.dependency = any (full_at.names)) as name
      from (
        select r.id, r.kind from stint.job r
        where r.state = 'ready' and r.queue = stint.by_index(full_at.queue)
        order by r.priority, r.run_at, r.id
        limit 1000
      ) r
    ) r
    join stint.job j on j.id = r.id
    where r.name is not null and j.state::text = 'ready'
      and not exists (select from stint.dependency_wait w where w.job_id = j.id)
      -- It holds places that other jobs wait for.
      and not exists (select from stint.limit_place p where p.job_id = j.id)
    for update of j skip locked
  ), parked as (
    update stint.job j set state = 'parked', park_reason = 'limit' from head where j.id = head.id
  ), waiting as (
    -- Estimates: at most what the dependency can give at once. One job that costs more must not keep the jobs behind it waiting for ever.
    insert into stint.dependency_wait (job_id, dependency, cost, priority, run_at)
    select h.id, h.name, least(h.cost, (d.settings #>> '{rate,burst}')::bigint, (d.settings #>> '{quota,limit}')::bigint), h.priority, h.run_at
    from head h join stint.dependency d on d.name = h.name
    order by h.priority, h.run_at, h.id
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, parked)
    select queue, kind, priority, count(*) from head group by queue, kind, priority
  )
  select count(*) into v_behind from head;

  update stint.dependency d
  set next_at = least(d.next_at, stint.dependency_due(d.name, clock_timestamp())),
      backlog_at = case when v_behind >= 100 then clock_timestamp() else d.backlog_at end
  where d.name = any (p_names);
  -- Where many jobs are parked one claim after the other, upkeep would find these rows locked, and the tokens would stay unused.
  for v_of in select d.* from stint.dependency d where d.name = any (p_names) and d.next_at <= clock_timestamp() order by d.name loop
    v_queues := v_queues || stint.tend_dependency(v_of);
  end loop;
  perform stint.wake(array(select 'ready:' || q from unnest(v_queues) q));
  if v_followed is not null then
    perform stint.run_follow_ups(v_followed, array_fill('parked'::stint.job_state, array[cardinality(v_followed)]));
  end if;
end
$$;

select stint.revoke_new_functions();
