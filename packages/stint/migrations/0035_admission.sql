-- Admission: how many jobs a queue takes, and what happens to an enqueue beyond that.
-- oldest code: 1

-- Cancels up to `p_count` ready jobs of a queue: of the lowest priority, or the oldest. Parts of flows stay. Returns how many it cancelled.
create function stint.shed(p_queue text, p_count bigint, p_order text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids uuid[];
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
        -- A job that remembers steps, sleeps or a checkpoint is in the middle of its work.
        and (j.epoch = 0 or not exists (select from stint.step s where s.job_id = j.id)
          and not exists (select from stint.progress g where g.job_id = j.id and g.checkpoint is not null))
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
  return stint.cancel_shed(v_ids, format('shed: queue "%s" was full', p_queue));
end
$$;

-- Cancels these waiting jobs, and counts them. Returns how many it cancelled.
create function stint.cancel_shed(p_ids uuid[], p_reason text) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(p_ids, '{}') = '{}' then
    return 0;
  end if;
  insert into stint.enqueue_count (queue, kind, status, count)
  select j.queue, j.kind, 'shed', count(*) from stint.job j where j.id = any (p_ids) group by j.queue, j.kind;
  return cardinality(stint.cancel_waiting(p_ids, p_reason));
end
$$;

-- Decides about an enqueue of `p_count` jobs before they are written. Raises queue_full; else returns by how much to delay them, mostly 0.
create function stint.admit(p_queue text, p_count bigint, p_settings jsonb) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_policy constant text := p_settings ->> 'policy';
  v_sample stint.admission_sample := stint.admission_sample(p_queue);
begin
  if p_settings -> 'strict' = 'true' then
    v_sample.depth := stint.live_depth(p_queue);
  end if;
  if v_policy = 'shed' or not stint.exceeds_admission(v_sample, p_settings, p_count) then
    return 0;
  end if;
  if v_policy = 'reject' then
    if coalesce(v_sample.delay_ms <= (p_settings -> 'maxDelayMs' ->> v_sample.behind)::double precision, true) then
      v_sample.behind := null;                     -- it is not the reason
    end if;
    perform stint.queue_full(v_sample, null, stint.retry_after(v_sample, p_settings, p_count));
  end if;
  insert into stint.enqueue_count (queue, kind, status, count)
  values (p_queue, '*', case v_policy when 'defer' then 'deferred-full' else 'over-limit' end, p_count);
  return case when v_policy = 'defer' then coalesce((p_settings ->> 'deferByMs')::bigint, stint.retry_after(v_sample, p_settings, p_count)) else 0 end;
end
$$;

-- Called by enqueue_new and enqueue_rows if some queue has admission settings: applies them to rows of `{id, queue, tenant, …}`, as far as they create
-- jobs. Returns the delays of queues that defer: {"QUEUE": {"all": ms, "tenants": {"TENANT": ms}}}. A row with `exempt` is made by Stint itself: it passes,
-- and counts.
create function stint.admit_rows(p_rows jsonb) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue  text;
  v_rows   jsonb[];
  v_new    jsonb[];
  v_set    jsonb;
  v_ms     bigint;
  v_tenants jsonb;
  v_delays jsonb := '{}';
begin
  for v_queue, v_rows in
    select r.value ->> 'queue', array_agg(r.value - array['payload', 'meta']) from jsonb_array_elements(p_rows) r group by 1 order by 1
  loop
    v_set := stint.admission_of(v_queue);
    continue when v_set is null;
    -- Of several rows with one dedupe key, one creates a job.
    v_new := array(
      select distinct on (r ->> 'kind', coalesce(r ->> 'dedupe_key', r ->> 'id'), r ? 'dedupe_key') r
      from unnest(v_rows) r
      where not r ? 'exempt' and stint.adds_job(r));
    if v_new <> '{}' then
      v_ms := stint.admit(v_queue, cardinality(v_new), v_set);
    else
      v_ms := 0;
    end if;
    v_tenants := '{}';
    if v_set ? 'tenant' then
      v_tenants := stint.admit_tenants(v_queue,
        array(select n ->> 'tenant' from unnest(v_new) n), array(select (n ->> 'id')::uuid from unnest(v_new) n),
        array_fill(false, array[cardinality(v_new)]), v_set);
      perform stint.note_tenant(r) from unnest(v_rows) r where r ? 'exempt';
    end if;
    if v_ms > 0 or v_tenants <> '{}' then
      v_delays := v_delays || jsonb_build_object(v_queue, jsonb_build_object('all', v_ms, 'tenants', v_tenants));
    end if;
  end loop;
  return v_delays;
end
$$;

-- Adds the delays of admit_rows to rows that would run sooner.
create function stint.deferred_rows(p_rows jsonb, p_delays jsonb) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_agg(
    case when coalesce((r.value ->> 'run_at')::timestamptz, d.now + coalesce((r.value ->> 'delay_ms')::bigint, 0) * interval '1 millisecond')
           < d.now + m.ms * interval '1 millisecond'
         then r.value - 'run_at' || jsonb_build_object('delay_ms', m.ms)
         else r.value end
    order by r.ordinality), '[]')
  from (select clock_timestamp() as now) d
  cross join jsonb_array_elements(p_rows) with ordinality r
  cross join lateral (select p_delays -> (r.value ->> 'queue') as of) q
  cross join lateral (select greatest((q.of ->> 'all')::bigint, (q.of -> 'tenants' ->> (r.value ->> 'tenant'))::bigint) as ms) m
$$;

-- What follows the writing of jobs to these queues: a queue or tenant that sheds loses what is beyond its limit, and a strict queue is checked at the
-- commit. A new job of the lowest priority may be among the shed.
create function stint.jobs_added(p_queues text[]) returns void
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
    if v_set -> 'strict' = 'true' then
      insert into stint.admission_check (queue) values (v_queue) on conflict do nothing;
    end if;
    if v_set #>> '{tenant,policy}' = 'shed' then
      perform stint.shed_tenant(v_queue, c.tenant, v_set -> 'tenant')
      from stint.admission_check c
      where c.xid = pg_current_xact_id() and c.queue = v_queue and c.tenant <> '';
    end if;
    continue when v_set ->> 'policy' is distinct from 'shed';
    v_over := stint.live_depth(v_queue) - (v_set ->> 'maxDepth')::bigint;
    if v_over > 0 then
      perform stint.shed(v_queue, v_over, v_set ->> 'shed');
    end if;
  end loop;
  perform stint.jobs_written();
end
$$;

-- The jobs of the tenants that this transaction has asked admission for are written: their checks are due.
create function stint.jobs_written() returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  update stint.admission_check c set written = true where c.xid = pg_current_xact_id() and not c.written
$$;

-- At the commit of a transaction that enqueued to strict queues. The update of the gate makes these commits wait for each other, so that each sees
-- the jobs of the one before; in a transaction of a higher isolation level it fails with a serialization error instead.
create function stint.check_admission() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue   text;
  v_tenants text[];
  v_set     jsonb;
  v_max     bigint;
  v_sample  stint.admission_sample;
begin
  for v_queue, v_tenants in
    -- In one order for all transactions, so that none deadlocks.
    with gone as (
      delete from stint.admission_check c where c.xid = pg_current_xact_id() and c.written returning c.queue, c.tenant
    )
    select g.queue, array_agg(g.tenant order by g.tenant) filter (where g.tenant <> '') from gone g group by g.queue order by g.queue
  loop
    v_set := stint.admission_of(v_queue);
    v_max := (v_set ->> 'maxDepth')::bigint;
    continue when v_set -> 'strict' is distinct from 'true';
    insert into stint.admission_gate as g (queue) values (v_queue) on conflict (queue) do update set passed = g.passed + 1;
    v_sample := stint.look_at_queue(v_queue, null);
    if v_sample.depth > v_max and v_set ->> 'policy' = 'shed' then
      perform stint.shed(v_queue, v_sample.depth - v_max, v_set ->> 'shed');
      v_sample.depth := stint.live_depth(v_queue);
    end if;
    if v_sample.depth > v_max then
      perform stint.queue_full(v_sample, null, stint.retry_after(v_sample, v_set, 0));
    end if;
    -- Their jobs of this transaction are written.
    perform stint.require_tenant_room(v_queue, t, v_set -> 'tenant') from unnest(v_tenants) t where v_set #> '{tenant,maxDepth}' is not null;
  end loop;
  return null;
end
$$;

-- Called by replays: a replayed job is one more in its queue. A strict queue refuses it if it does not fit; others take it, because a person asked.
create function stint.readmit(p_ids uuid[], p_queues text[], p_tenants text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue   text;
  v_ids     uuid[];
  v_tenants text[];
  v_set     jsonb;
begin
  for v_queue, v_ids, v_tenants in
    select r.queue, array_agg(r.id), array_agg(r.tenant) from unnest(p_ids, p_queues, p_tenants) r (id, queue, tenant) group by r.queue order by r.queue
  loop
    v_set := stint.admission_of(v_queue);
    if v_set -> 'strict' = 'true' then
      insert into stint.admission_check (queue) values (v_queue) on conflict do nothing;
    end if;
    if v_set ? 'tenant' then
      perform stint.admit_tenants(v_queue, v_tenants, v_ids, array_fill(true, array[cardinality(v_ids)]), v_set);
    end if;
  end loop;
  perform stint.jobs_written();
end
$$;

create constraint trigger check_admission after insert or update of written on stint.admission_check
deferrable initially deferred
for each row when (new.written) execute function stint.check_admission();

-- For upkeep. Takes samples of queues that may be full: an enqueue that is refused is rolled back with its sample. And deletes rows of tenants whose
-- jobs have ended, `p_limit` rows after `p_after` (queue, tenant, job). Returns the last row looked at; null: that was the end, the next call starts over.
-- Does nothing if another worker has done it within the last `p_every_ms`, and returns `p_after`.
create function stint.tend_admission(p_after text[], p_limit integer, p_every_ms integer) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue  text;
  v_looked stint.admitted[];
  v_last   stint.admitted;
begin
  insert into stint.admission_tended as t (at) values (clock_timestamp())
  on conflict (id) do update set at = excluded.at where t.at <= excluded.at - p_every_ms * interval '1 millisecond';
  if not found then
    return p_after;
  end if;
  for v_queue in
    select f.queue
    from (
      select d.queue
      from (select t.queue, sum(t.live) as live from stint.depth t group by t.queue) d
      cross join lateral stint.admission_of(d.queue) as a (admission)
      where d.live >= (a.admission ->> 'maxDepth')::bigint or d.live > 0 and a.admission ?| array['maxAgeMs', 'maxDelayMs']
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
  v_looked := array(
    select row(a.*)::stint.admitted
    from stint.admitted a
    where (a.queue, a.tenant, a.job_id) > (coalesce(p_after[1], ''), coalesce(p_after[2], ''), coalesce(p_after[3], '00000000-0000-0000-0000-000000000000')::uuid)
    order by a.queue, a.tenant, a.job_id
    limit p_limit
    for update skip locked);
  -- In a statement of its own: a replay may have returned the job before its row was locked.
  delete from stint.admitted a
  using unnest(v_looked) l
  where a.queue = l.queue and a.tenant = l.tenant and a.job_id = l.job_id and not exists (select from stint.job j where j.id = l.job_id);
  if cardinality(v_looked) = p_limit then
    v_last := v_looked[p_limit];
    return array[v_last.queue, v_last.tenant, v_last.job_id::text];
  end if;
  return null;
end
$$;

select stint.revoke_new_functions();
