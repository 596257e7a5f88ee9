-- How many workers are needed, for an autoscaler.
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

-- How many workers with these pools are needed to finish what is ready within its target, while keeping up with what arrives: for an
-- autoscaler, so never null. `p_pools` is an array of objects with queues, names or patterns, and slots. The target is `p_target`, else the
-- target age of each queue, else five minutes. Arrivals and run times are those of the last ten minutes; a job of a kind that has not run
-- lately counts as a second of work. A slot that is busy is needed.
create function stint.workers_needed(p_pools jsonb, p_target interval default null) returns integer
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
  ), patterns as materialized (
    select coalesce(jsonb_object_agg(q.name, q.target_age_ms), '{}') as targets
    from stint.queue q
    where strpos(q.name, '*') > 0 and q.target_age_ms is not null
  ), served as materialized (
    select
      q.queue, stint.served_as(e.pools, q.queue) as served_as,
      greatest(1, coalesce(
        extract(epoch from p_target)::float8 * 1000, own.target_age_ms,
        (t.targets ->> stint.served_as(t.targets, q.queue))::float8, 300000)) / 1000 as target_s
    from (select distinct queue from work) q
    cross join every e
    cross join patterns t
    left join stint.queue own on own.name = q.queue
  ), needed as (
    select p.slots, sum(greatest(w.per_s * w.takes_s, w.running) + w.ready * w.takes_s / s.target_s) as busy
    from pool p
    join served s on s.served_as = p.queue
    join work w on w.queue = s.queue
    group by p.pool, p.slots
  )
  select coalesce(max(ceil(least(busy / nullif(slots, 0), 1000000)))::integer, 0) from needed
$$;

-- PostgreSQL grants execute on new functions to everyone by default.
revoke all on all functions in schema stint from public;
