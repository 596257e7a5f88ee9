-- When a job of a flow ends: the jobs that wait for it become ready, or are cancelled.
-- oldest code: 1

-- Make jobs ready that wait for nothing more, or scheduled if they have a delay or a later time. Returns the hints for workers.
create function stint.unblock(p_ids uuid[]) returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  with freed as (
    update stint.job j
    set state = case when t.run_at > clock_timestamp() then 'scheduled' else 'ready' end::stint.job_state,
        run_at = t.run_at, park_reason = null, park_until = null, reason = null
    from unnest(p_ids) as i (id)
    join stint.flow_job m on m.job_id = i.id
    -- Not before now: a job that has waited for long must not pass those that were ready before it.
    cross join lateral (
      select greatest(b.run_at, clock_timestamp() + coalesce(m.delay_ms, 0) * interval '1 millisecond') as run_at
      from stint.job b where b.id = i.id
    ) t
    where j.id = i.id and j.state = 'parked' and j.park_reason = 'blocked'
    returning j.queue, j.kind, j.priority, j.state
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, parked, scheduled)
    select queue, kind, priority, -count(*), count(*) filter (where state = 'scheduled')
    from freed
    group by queue, kind, priority
  )
  select array(select case when state = 'ready' then 'ready:' || queue else 'due' end from freed)
$$;

-- Cancel jobs that are not running, and ask for the end of those that are. Returns the ids of the jobs that ended.
create function stint.cancel_waiting(p_ids uuid[], p_reason text) returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
begin
  with asked as (
    update stint.job j set cancel_requested = true
    where j.id = any (p_ids) and j.state = 'running'
  ), gone as (
    delete from stint.job j
    where j.id = any (p_ids) and j.state <> 'running'
    returning j.*
  ), ended as (
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults, epoch, run, lease_id, worker,
      claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, reason, meta, payload, result, log, limits)
    select
      id, kind, queue, 'cancelled', priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults, epoch, run, lease_id, worker,
      claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, p_reason, meta, payload, null, log, limits
    from gone
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, live, scheduled, retrying, parked)
    select queue, kind, priority, -count(*), -count(*) filter (where state = 'scheduled'), -count(*) filter (where state = 'retrying'),
      -count(*) filter (where state = 'parked')
    from gone
    group by queue, kind, priority
  ), noted as (
    update stint.flow_job m set state = 'cancelled', ended_at = clock_timestamp()
    from gone where m.job_id = gone.id
  )
  select array_agg(id) into v_ended from gone;
  if v_ended is null then
    return '{}';
  end if;
  perform stint.wake(stint.free_places(v_ended, array_fill('cancelled'::stint.job_state, array[cardinality(v_ended)])));
  return v_ended;
end
$$;

-- Cancel the children that cancelled jobs waited for, with all that waits for them in turn. Returns the hints for workers.
--
-- A child that another session has locked is skipped, because the settle of a child takes the child first and the parent next: to wait for it could
-- deadlock. A claim or a renewal ends soon, so it is tried again for a moment. A settle ends the child by itself, or sees at its own end that the
-- parent was cancelled.
create function stint.cancel_children(p_parents uuid[], p_reason text) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hints    text[] := '{}';
  v_children uuid[];
  v_free     uuid[];
  v_ended    uuid[];
begin
  for try in 1 .. 20 loop
    select array_agg(c.job_id) into v_children
    from stint.flow_job c
    join stint.flow_job p on p.job_id = c.parent_id and p.state = 'cancelled'
    join stint.flow_edge e on e.job_id = c.parent_id and e.on_id = coalesce(c.chain_id, c.job_id) and e.state is null
    join stint.job j on j.id = c.job_id and not j.cancel_requested
    where c.parent_id = any (p_parents) and c.state is null;
    exit when v_children is null;
    select array_agg(l.id) into v_free
    from (select j.id from stint.job j where j.id = any (v_children) order by j.id for update skip locked) l;
    if v_free is not null then
      v_ended := stint.cancel_waiting(v_free, p_reason);
      perform stint.lift_latest(v_ended);
      v_hints := v_hints || case when cardinality(v_ended) < cardinality(v_free) then array['cancel'] else '{}' end
        || stint.cancel_children(v_ended, p_reason);
      v_hints := v_hints || coalesce((
        select stint.resolve_edges(
          array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(p_reason))
        from stint.flow_job m
        where m.job_id = any (v_ended)
        having count(*) > 0), '{}');
    end if;
    exit when cardinality(v_free) = cardinality(v_children);
    perform pg_sleep(0.01);
  end loop;
  return v_hints;
end
$$;

-- Chains have ended: pass their results to the jobs that wait for them, make those ready that wait for nothing more, and cancel those whose
-- policy says so, with all that waits for them in turn. Waiting jobs are locked in the order of their ids, first their rows of `job`, then those
-- of `flow_job`: two batches that end jobs with the same dependents cannot deadlock, and none misses the other's count.
create function stint.resolve_edges(p_heads uuid[], p_states stint.job_state[], p_results jsonb[], p_reasons text[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hints   text[] := '{}';
  v_waiting uuid[];
  v_free    uuid[];
  v_stuck   uuid[];
  v_doomed  uuid[];
  v_reasons text[];
begin
  loop
    select array_agg(w.job_id order by w.job_id) into v_waiting
    from (
      select distinct e.job_id
      from unnest(p_heads) as h (id)
      join stint.flow_edge e on e.on_id = h.id
      where e.state is null
    ) w;
    exit when v_waiting is null;
    perform from stint.job j where j.id = any (v_waiting) order by j.id for update;
    perform from stint.flow_job m where m.job_id = any (v_waiting) order by m.job_id for update;

    with ended as (
      select * from unnest(p_heads, p_states, p_results, p_reasons) as e (head, state, result, reason)
    ), edges as (
      update stint.flow_edge e
      set state = n.state, result = n.result, reason = n.reason
      from ended n
      where e.on_id = n.head and e.state is null
      returning e.job_id, e.kind, e.on_id, e.state
    ), counted as (
      select job_id, count(*) as ended, count(*) filter (where state = 'succeeded') as succeeded,
        min(stint.failed_dependency(kind, on_id, state)) filter (where state <> 'succeeded') as failed
      from edges
      group by job_id
    ), members as (
      update stint.flow_job m
      set pending = m.pending - case when m.on_failure = 'run' then c.ended else c.succeeded end
      from counted c
      where m.job_id = c.job_id
      returning m.job_id, m.pending, m.on_failure, m.state, c.failed
    )
    select
      array_agg(job_id) filter (where pending <= 0),
      array_agg(job_id) filter (where failed is not null and on_failure = 'park'),
      array_agg(job_id) filter (where failed is not null and on_failure = 'cancel'),
      array_agg(failed) filter (where failed is not null and on_failure = 'cancel')
    into v_free, v_stuck, v_doomed, v_reasons
    from members
    where state is null;

    if v_free is not null then
      v_hints := v_hints || stint.unblock(v_free);
    end if;
    if v_stuck is not null then
      update stint.job j
      set reason = (
        select min(stint.failed_dependency(e.kind, e.on_id, e.state)) from stint.flow_edge e where e.job_id = j.id and e.state in ('dead', 'cancelled'))
      where j.id = any (v_stuck) and j.park_reason = 'blocked';
    end if;
    exit when v_doomed is null;
    v_doomed := stint.cancel_waiting(v_doomed, v_reasons[1]);
    perform stint.lift_latest(v_doomed);
    v_hints := v_hints || stint.cancel_children(v_doomed, 'the job that waits for it was cancelled');
    select array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(v_reasons[1])
    into p_heads, p_states, p_results, p_reasons
    from stint.flow_job m
    where m.job_id = any (v_doomed);
    exit when p_heads is null;
  end loop;
  return v_hints;
end
$$;

-- What a handler asked for with its outcome: {"next": row} continues the chain, {"spawn": [rows]} adds children, {"wait": policy} parks the job until

select stint.revoke_new_functions();
