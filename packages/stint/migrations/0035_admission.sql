-- Admission: how many jobs a queue takes, and what happens to an enqueue beyond that.
-- oldest code: 1

-- Cancels up to `p_count` ready jobs of a queue: of the lowest priority, or the oldest. Parts of flows stay. Returns how many it cancelled.
create function stint.shed(p_queue text, p_count bigint, p_order text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids  uuid[];
  v_gone uuid[];
begin
  with recursive priorities as (
    (select j.priority from stint.job j where j.state = 'ready' and j.queue = stint.by_index(p_queue) order by j.priority limit 1)
    union all
    select n.priority
    from priorities p
    cross join lateral (
      select j.priority from stint.job j
      where j.state = 'ready' and j.queue = stint.by_index(p_queue) and j.priority > p.priority
      order by j.priority limit 1
    ) n
  ), heads as (
    select h.*
    from priorities p
    cross join lateral (
      select j.id, j.priority, j.run_at from stint.job j
      where j.state = 'ready' and j.queue = stint.by_index(p_queue) and j.priority = p.priority and j.has_follow_ups is null
      order by j.run_at, j.id
      limit p_count
    ) h
  ), chosen as (
    select h.id from heads h
    order by case when p_order = 'lowest-priority' then -h.priority else 0 end, h.run_at, h.id
    limit p_count
  ), free as (
    select j.id from stint.job j where j.id in (select c.id from chosen c) and j.state = 'ready' for update skip locked
  )
  select array_agg(f.id) into v_ids from free f;
  if v_ids is null then
    return 0;
  end if;
  insert into stint.enqueue_count (queue, kind, status, count)
  select j.queue, j.kind, 'shed', count(*) from stint.job j where j.id = any (v_ids) group by j.queue, j.kind;
  v_gone := stint.cancel_waiting(v_ids, format('shed: queue "%s" was full', p_queue));
  return cardinality(v_gone);
end
$$;

-- Decides about an enqueue of `p_count` jobs before they are written. Raises queue_full; else returns by how much to delay them, mostly 0.
create function stint.admit(p_queue text, p_count bigint, p_settings jsonb) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_max    constant bigint := (p_settings ->> 'maxDepth')::bigint;
  v_oldest constant double precision := (p_settings ->> 'maxAgeMs')::double precision;
  v_policy constant text := p_settings ->> 'policy';
  v_sample stint.admission_sample := stint.admission_sample(p_queue);
begin
  if p_settings -> 'strict' = 'true' then
    v_sample.depth := stint.live_depth(p_queue);
  end if;
  if v_policy = 'shed' or coalesce(v_sample.depth + p_count <= v_max, true) and coalesce(v_sample.age_ms <= v_oldest, true) then
    return 0;
  end if;
  if v_policy = 'reject' then
    perform stint.queue_full(p_queue, null, v_sample.depth, v_sample.age_ms,
      stint.retry_after(v_sample.depth + p_count - 1, v_max, v_sample.age_ms, v_oldest));
  end if;
  insert into stint.enqueue_count (queue, kind, status, count)
  values (p_queue, '*', case v_policy when 'defer' then 'deferred-full' else 'over-limit' end, p_count);
  return case when v_policy = 'defer' then coalesce((p_settings ->> 'deferByMs')::bigint,
    stint.retry_after(v_sample.depth + p_count - 1, v_max, v_sample.age_ms, v_oldest)) else 0 end;
end
$$;

-- The same for the jobs of tenants, exactly as of this statement. Two open transactions do not see each other's jobs.
create function stint.admit_tenants(p_queue text, p_tenants text[], p_ids uuid[], p_max integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant text;
  v_count  bigint;
  v_live   bigint;
begin
  for v_tenant, v_count in
    select t.tenant, count(*) from unnest(p_tenants) t (tenant) where t.tenant is not null group by t.tenant order by t.tenant
  loop
    select count(*) into v_live from stint.admitted a where a.queue = p_queue and a.tenant = v_tenant;
    if v_live + v_count > p_max then
      delete from stint.admitted a
      where a.queue = p_queue and a.tenant = v_tenant and not exists (select from stint.job j where j.id = a.job_id);
      select count(*) into v_live from stint.admitted a where a.queue = p_queue and a.tenant = v_tenant;
      if v_live + v_count > p_max then
        perform stint.queue_full(p_queue, v_tenant, v_live, stint.ready_age(p_queue), 1000);
      end if;
    end if;
  end loop;
  insert into stint.admitted (queue, tenant, job_id)
  select p_queue, t.tenant, t.id from unnest(p_tenants, p_ids) t (tenant, id) where t.tenant is not null
  on conflict do nothing;
end
$$;

-- Called by enqueue_new and enqueue_rows if some queue has admission settings: applies them to rows of `{id, queue, tenant, …}`. Returns the delay of
-- each queue that defers. A row with `again` repeats an enqueue that may have happened: it passes here, and a strict queue checks it at the commit. A row
-- with `exempt` is made by Stint itself, and passes.
create function stint.admit_rows(p_rows jsonb) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue  text;
  v_new    jsonb;
  v_set    jsonb;
  v_ms     bigint;
  v_delays jsonb := '{}';
begin
  for v_queue, v_new in
    select r.value ->> 'queue', coalesce(jsonb_agg(r.value) filter (where not r.value ? 'again'), '[]')
    from jsonb_array_elements(p_rows) r
    where not r.value ? 'exempt'
    group by 1
    order by 1
  loop
    v_set := stint.admission_of(v_queue);
    continue when v_set is null;
    if v_set -> 'strict' = 'true' then
      insert into stint.admission_check (queue) values (v_queue) on conflict do nothing;
    end if;
    continue when v_new = '[]';
    v_ms := stint.admit(v_queue, jsonb_array_length(v_new), v_set);
    if v_ms > 0 then
      v_delays := v_delays || jsonb_build_object(v_queue, v_ms);
    end if;
    if v_set ? 'tenantMaxDepth' then
      perform stint.admit_tenants(v_queue,
        array(select n.value ->> 'tenant' from jsonb_array_elements(v_new) with ordinality n order by n.ordinality),
        array(select (n.value ->> 'id')::uuid from jsonb_array_elements(v_new) with ordinality n order by n.ordinality),
        (v_set ->> 'tenantMaxDepth')::integer);
    end if;
  end loop;
  return v_delays;
end
$$;

-- Adds the delays of admit_rows to rows that would run sooner.
create function stint.deferred_rows(p_rows jsonb, p_delays jsonb) returns jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_agg(
    case when p_delays ? (r.value ->> 'queue') and not r.value ? 'run_at'
           and coalesce((r.value ->> 'delay_ms')::bigint, 0) < (p_delays ->> (r.value ->> 'queue'))::bigint
         then r.value || jsonb_build_object('delay_ms', (p_delays ->> (r.value ->> 'queue'))::bigint)
         else r.value end
    order by r.ordinality), '[]')
  from jsonb_array_elements(p_rows) with ordinality r
$$;

-- Sheds what an enqueue has added beyond the limit, once its jobs are written. A new job of the lowest priority may be among the shed.
create function stint.shed_surplus(p_queues text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
  v_set   jsonb;
  v_over  bigint;
begin
  for v_queue in select distinct q from unnest(p_queues) q order by 1 loop
    v_set := stint.admission_of(v_queue);
    continue when v_set ->> 'policy' is distinct from 'shed';
    v_over := stint.live_depth(v_queue) - (v_set ->> 'maxDepth')::bigint;
    if v_over > 0 then
      perform stint.shed(v_queue, v_over, v_set ->> 'shed');
    end if;
  end loop;
end
$$;

-- At the commit of a transaction that enqueued to strict queues. The update of the gate makes these commits wait for each other, so that each sees
-- the jobs of the one before; in a transaction of a higher isolation level it fails with a serialization error instead.
create function stint.check_admission() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
  v_set   jsonb;
  v_depth bigint;
  v_max   bigint;
begin
  for v_queue in
    -- In one order for all transactions, so that none deadlocks.
    with gone as (
      delete from stint.admission_check c where c.xid = pg_current_xact_id() returning c.queue
    )
    select g.queue from gone g order by g.queue
  loop
    v_set := stint.admission_of(v_queue);
    v_max := (v_set ->> 'maxDepth')::bigint;
    continue when v_max is null or v_set -> 'strict' is distinct from 'true';
    insert into stint.admission_gate as g (queue) values (v_queue) on conflict (queue) do update set passed = g.passed + 1;
    v_depth := stint.live_depth(v_queue);
    if v_depth > v_max and v_set ->> 'policy' = 'shed' then
      perform stint.shed(v_queue, v_depth - v_max, v_set ->> 'shed');
      v_depth := stint.live_depth(v_queue);
    end if;
    if v_depth > v_max then
      perform stint.queue_full(v_queue, null, v_depth, 0, stint.retry_after(v_depth, v_max, stint.ready_age(v_queue), null));
    end if;
  end loop;
  return null;
end
$$;

create constraint trigger check_admission after insert on stint.admission_check
deferrable initially deferred
for each row execute function stint.check_admission();

-- Whether a queue would admit a job now, for callers that ask first.
create function stint.admission(queue text)
returns table (admits boolean, policy text, depth bigint, age_ms double precision, max_depth bigint, max_age_ms double precision, retry_after_ms integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_set    constant jsonb := stint.admission_of(admission.queue);
  v_sample stint.admission_sample;
begin
  if v_set is null then
    v_sample := row(admission.queue, stint.live_depth(admission.queue), stint.ready_age(admission.queue), clock_timestamp(), null);
  else
    v_sample := stint.admission_sample(admission.queue);
  end if;
  policy := v_set ->> 'policy';
  depth := v_sample.depth;
  age_ms := v_sample.age_ms;
  max_depth := (v_set ->> 'maxDepth')::bigint;
  max_age_ms := (v_set ->> 'maxAgeMs')::double precision;
  admits := coalesce(depth < max_depth, true) and coalesce(age_ms <= max_age_ms, true);
  retry_after_ms := case when admits then 0 else stint.retry_after(depth, max_depth, age_ms, max_age_ms) end;
  return next;
end
$$;

-- For upkeep. Takes samples of queues that may be full: an enqueue that is refused is rolled back with its sample. And deletes rows of tenants whose
-- jobs have ended, `p_limit` rows after `p_after` (queue, tenant, job). Returns the last row looked at; null: that was the end, the next call starts over.
create function stint.tend_admission(p_after text[], p_limit integer) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
  v_last  text[];
begin
  for v_queue in
    select f.queue
    from (
      select d.queue
      from (select t.queue, sum(t.live) as live from stint.depth t group by t.queue) d
      cross join lateral stint.admission_of(d.queue) as a (admission)
      where d.live >= (a.admission ->> 'maxDepth')::bigint or d.live > 0 and a.admission ? 'maxAgeMs'
      union
      select s.queue from stint.admission_sample s where s.full_since is not null
    ) f
    left join stint.admission_sample s on s.queue = f.queue
    -- The oldest samples first, so that each of more than 100 queues has its turn.
    order by s.sampled_at nulls first, f.queue
    limit 100
  loop
    perform stint.admission_sample(v_queue);
  end loop;
  -- A row that another session has locked belongs to an enqueue that is deleting it.
  with looked as materialized (
    select a.queue, a.tenant, a.job_id
    from stint.admitted a
    where (a.queue, a.tenant, a.job_id) > (coalesce(p_after[1], ''), coalesce(p_after[2], ''), coalesce(p_after[3], '00000000-0000-0000-0000-000000000000')::uuid)
    order by a.queue, a.tenant, a.job_id
    limit p_limit
    for update skip locked
  ), gone as (
    delete from stint.admitted a
    using looked l
    where a.queue = l.queue and a.tenant = l.tenant and a.job_id = l.job_id and not exists (select from stint.job j where j.id = l.job_id)
  )
  select case when (select count(*) from looked) = p_limit then array[l.queue, l.tenant, l.job_id::text] end into v_last
  from looked l
  order by l.queue desc, l.tenant desc, l.job_id desc
  limit 1;
  return v_last;
end
$$;

-- PostgreSQL grants execute on new functions to everyone by default.
revoke all on all functions in schema stint from public;
