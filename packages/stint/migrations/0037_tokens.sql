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
  select (date_trunc(q.per, p_at at time zone q.zone) + ('1 ' || q.per)::interval) at time zone q.zone
  from (select p_of.settings #>> '{quota,per}' as per, p_of.settings #>> '{quota,zone}' as zone) q
$$;

-- What the window of this time has spent. A window never begins again: if the clock is set back, the newer one goes on.
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

-- Tokens that are kept for jobs which were let in a moment ago, and whose worker will take them.
create function stint.reserved_of(p_name text, p_at timestamptz) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(sum(w.cost), 0)::bigint
  from stint.dependency_wait w
  where w.dependency = p_name and w.let_in_at > p_at - interval '5 seconds'
$$;

create function stint.is_paused_dependency(p_name text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from stint.pause p where p.scope = 'dependency' and p.name = p_name and (p.until is null or p.until > clock_timestamp()))
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

-- ---- Taking tokens ---------------------------------------------------------------------------------

-- A worker has claimed these jobs, and is about to start their handlers. The job number `p_of[i]` needs `p_costs[i]` tokens of `p_names[i]`. A job takes
-- all its tokens, or is parked until they are there: no attempt is spent, and nothing is logged. `outcome`: `taken`, `waits`, `cancelled` if a cancel was
-- requested, or `lost` if the fence no longer holds; those take no tokens. `at`: when the tokens were taken; the worker must start the job soon after it.
-- A repeat takes tokens again.
create function stint.take_tokens(p_ids uuid[], p_epochs bigint[], p_leases uuid[], p_of integer[], p_names text[], p_costs bigint[])
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

  update stint.dependency d
  set credit = coalesce(stint.credit_of(d, v_now) - s.spent * (d.settings #>> '{rate,perMs}')::numeric * 1000, 0), credit_at = greatest(d.credit_at, v_now),
      quota_used = coalesce(stint.quota_spent(d, v_now), 0) + s.spent, quota_from = coalesce(greatest(d.quota_from, stint.quota_start(d, v_now)), d.quota_from)
  from unnest(v_names, v_spent) as s (name, spent)
  where d.name = s.name and s.spent > 0;
  delete from stint.dependency_wait w where w.job_id = any (v_taken);
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
    insert into stint.dependency_wait (job_id, dependency, cost, priority, run_at)
    select h.id, h.name, h.cost, h.priority, h.run_at from head h order by h.priority, h.run_at, h.id
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from head group by queue, kind, priority;

  update stint.dependency d set next_at = least(d.next_at, stint.dependency_due(d.name, clock_timestamp())) where d.name = any (p_names);
  if v_followed is not null then
    perform stint.run_follow_ups(v_followed, array_fill('parked'::stint.job_state, array[cardinality(v_followed)]));
  end if;
end
$$;

revoke all on all functions in schema stint from public;
