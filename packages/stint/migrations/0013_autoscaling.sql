-- The load of pools, and how many workers are needed: for autoscalers and for the recommendation.
-- oldest code: 1

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

-- The load of pools, one row for each queue and kind with work, for autoscalers and for the recommendation. `p_pools` is an array of objects with queues,
-- names or patterns, and slots. The target is `p_target`, else the target age of each queue, else five minutes. Arrivals and run times are those of the
-- last ten minutes; a job of a kind that has not run lately counts as a second of work.
--
-- `wanted` slots finish what is ready within its target, while keeping up with what arrives; a busy slot is wanted. `needed` leaves out what more slots
-- cannot speed up: a paused queue, kind or dependency needs the slots of its running jobs only, limits cap the rest, and jobs that need tokens of a
-- dependency need slots for as many as there will be tokens for within the target. `paused` and `full_limit` name the reason.
-- Jobs that were claimed ahead of a free slot count as ready. At most 10,000 jobs that wait at limits, and as many that wait for tokens, are looked at.
--
-- PL/pgSQL, because its tables are made by later migrations.
create function stint.pool_load(p_pools jsonb, p_target interval default null)
returns table (
  pool bigint, queue text, kind text, slots integer, ready float8, running float8, waiting float8, arrived_per_s float8, ran_per_s float8,
  takes_s float8, target_s float8, wanted float8, needed float8, paused text, full_limit text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_wrong jsonb;
begin
  if jsonb_typeof(p_pools) <> 'array' then
    raise exception 'stint: pools must be an array of {"queues": ["…"], "slots": 10}, got %', left(p_pools::text, 200) using errcode = '22023';
  end if;
  select p into v_wrong
  from jsonb_array_elements(p_pools) as p
  where jsonb_typeof(p -> 'queues') is distinct from 'array' or jsonb_path_exists(p, '$.queues[*] ? (@.type() != "string")')
    or jsonb_typeof(p -> 'slots') is distinct from 'number' or p ->> 'slots' !~ '^[0-9]{1,9}$'
  limit 1;
  if found then
    raise exception 'stint: each of pools must be {"queues": ["…"], "slots": 10}, got %', left(v_wrong::text, 200) using errcode = '22023';
  end if;
  return query
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
      queue, kind, coalesce(l.arrived, 0)::float8 / 600 as per_s, coalesce(l.runs, 0)::float8 / 600 as ran_per_s,
      coalesce(l.run_s / nullif(l.runs, 0), 1)::float8 as takes_s,
      greatest(coalesce(d.ready, 0), 0)::float8 as ready, greatest(coalesce(d.running, 0), 0)::float8 as running
    from lately l
    full join depth d using (queue, kind)
  ), patterns as materialized (
    select coalesce(jsonb_object_agg(q.name, q.target_age_ms), '{}') as targets
    from stint.queue q
    where strpos(q.name, '*') > 0 and q.target_age_ms is not null
  ), busy_queue as materialized (
    select w.queue, sum(w.running) as running from work w group by w.queue
  ), served as materialized (
    select
      q.queue, stint.served_as(e.pools, q.queue) as served_as,
      greatest(1, coalesce(
        extract(epoch from p_target)::float8 * 1000, own.target_age_ms,
        (t.targets ->> stint.served_as(t.targets, q.queue))::float8, 300000)) / 1000 as target_s,
      -- The part of its running jobs that have a slot. Without a worker's row, all of them.
      case when q.running = 0 then 1 else least(1, coalesce((
        select nullif(sum((w.pools ->> stint.served_as(w.pools, q.queue))::float8), 0) from stint.worker w), q.running) / q.running)
      end as in_slots
    from busy_queue q
    cross join every e
    cross join patterns t
    left join stint.queue own on own.name = q.queue
  ), pauses as materialized (
    select p.scope, p.name
    from stint.pause p
    where p.scope in ('queue', 'kind', 'dependency') and (p.until is null or p.until > clock_timestamp())
  ), waits as materialized (
    select j.queue, j.kind, count(*)::float8 as jobs, mode() within group (order by stint.rule_of(w.key)) as rule
    from (select p.job_id, p.key from stint.limit_place p where not p.holds limit 10000) w
    join stint.job j on j.id = w.job_id and j.state = 'parked'
    group by j.queue, j.kind
  ), token_waits as materialized (
    select j.queue, j.kind, count(*)::float8 as jobs, avg(t.cost)::float8 as cost, mode() within group (order by t.dependency) as dependency
    from (select w.job_id, w.dependency, w.cost from stint.dependency_wait w where w.let_in_at is null limit 10000) t
    join stint.job j on j.id = t.job_id and j.state = 'parked'
    group by j.queue, j.kind
  ), demand as materialized (
    select
      p.pool, w.queue, w.kind, p.slots, w.ready, w.running, coalesce(l.jobs, 0) + coalesce(t.jobs, 0) as waiting, w.per_s, w.ran_per_s, w.takes_s, s.target_s,
      l.rule, by.paused, w.running * s.in_slots as kept,
      (w.ready + coalesce(t.jobs, 0) + w.running * (1 - s.in_slots)) * w.takes_s / s.target_s as ready_slots,
      t.dependency, greatest(coalesce(t.cost, 1), 1) as cost
    from pool p
    join served s on s.served_as = p.queue
    join work w on w.queue = s.queue
    left join waits l on l.queue = w.queue and l.kind = w.kind
    left join token_waits t on t.queue = w.queue and t.kind = w.kind
    cross join lateral (
      select min(b.scope || ':' || b.name) as paused
      from pauses b
      where case
        when b.scope = 'dependency' then exists (select from stint.kind_dependency k where k.kind = w.kind and k.dependency = b.name)
        else stint.served_as(jsonb_build_object(b.name, 0), case b.scope when 'queue' then w.queue else w.kind end) is not null
      end
    ) by
  ), uncapped as (
    select
      d.*, greatest(d.per_s * d.takes_s, d.kept) + d.ready_slots as wanted,
      case
        when d.paused is not null then d.kept
        -- More arrive than the limit lets run, and a slot does not help them.
        when d.rule is not null then d.kept + d.ready_slots
        else greatest(d.per_s * d.takes_s, d.kept) + d.ready_slots
      end as needed
    from demand d
  ), supplied as (
    -- The part of the work of each kind that a dependency has tokens for. Kinds that use the same one share them.
    select
      u.pool, u.queue, u.kind, k.dependency,
      stint.token_supply(d, u.target_s) / nullif(sum(u.needed * u.cost / greatest(u.takes_s, 0.001)) over (partition by k.dependency), 0) as share
    from uncapped u
    join stint.kind_dependency k on k.kind = u.kind
    join stint.dependency d on d.name = k.dependency
  ), short_of_tokens as (
    select distinct on (s.pool, s.queue, s.kind) s.* from supplied s where s.share < 1 order by s.pool, s.queue, s.kind, s.share, s.dependency
  ), with_tokens as (
    -- A running job has its tokens, and its slot.
    select
      u.pool, u.queue, u.kind, u.slots, u.ready, u.running, u.waiting, u.per_s, u.ran_per_s, u.takes_s, u.target_s, u.paused, u.wanted,
      greatest(least(u.kept, u.needed), u.needed * coalesce(s.share, 1)) as needed, coalesce(u.rule, 'dependency:' || coalesce(s.dependency, u.dependency)) as rule
    from uncapped u
    left join short_of_tokens s on s.pool = u.pool and s.queue = u.queue and s.kind = u.kind
  ), of_kind as (
    select u.*, least(1, l.max / nullif(sum(u.needed) over (partition by u.kind), 0)) as share, l.name as limit_name
    from with_tokens u
    left join stint.limit l on l.name = 'kind:' || u.kind
  ), of_queue as (
    select
      k.*, k.needed * coalesce(k.share, 1) as allowed, l.name as queue_limit,
      least(1, l.max / nullif(sum(k.needed * coalesce(k.share, 1)) over (partition by k.queue), 0)) as queue_share
    from of_kind k
    left join stint.limit l on l.name = 'queue:' || k.queue
  )
  select
    q.pool, q.queue, q.kind, q.slots, q.ready, q.running, q.waiting, q.per_s, q.ran_per_s, q.takes_s, q.target_s, q.wanted,
    q.allowed * coalesce(q.queue_share, 1), q.paused,
    coalesce(q.rule, case when q.queue_share < 1 then q.queue_limit when q.share < 1 then q.limit_name end)
  from of_queue q
  order by q.pool, q.queue, q.kind;
end
$$;

-- How many workers with these pools are needed, by pool_load(): for an autoscaler, so never null. A pool without slots needs none.
create function stint.workers_needed(p_pools jsonb, p_target interval default null) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(max(p.workers), 0)
  from (
    select ceil(least(sum(l.needed) / l.slots, 1000000))::integer as workers
    from stint.pool_load(p_pools, p_target) l
    where l.slots > 0
    group by l.pool, l.slots
  ) p
$$;

select stint.revoke_new_functions();
