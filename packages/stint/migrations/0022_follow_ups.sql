-- What an outcome leads to: the next job of a chain, children, and a flow that continues, stops or is replayed.
-- oldest code: 1

-- they have ended.
create function stint.run_plan(p_id uuid, p_plan jsonb, p_now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_self   stint.flow_job;
  v_kind   text := p_plan ->> 'kind';
  v_next   jsonb := p_plan -> 'next';
  v_id     uuid := (v_next ->> 'id')::uuid;
  v_child  jsonb;
  v_count  integer := 0;
  v_before integer;
begin
  select m.* into v_self from stint.flow_job m where m.job_id = p_id;
  if not found then
    insert into stint.flow (id) values (p_id) on conflict do nothing;
    insert into stint.flow_job (job_id, flow_id, kind) values (p_id, p_id, v_kind) returning * into v_self;
  end if;

  for v_child in select c.value from jsonb_array_elements(coalesce(p_plan -> 'spawn', '[]')) with ordinality c order by c.ordinality loop
    perform stint.enqueue_member(
      v_child, jsonb_build_object('flow', jsonb_build_object('id', v_self.flow_id), 'parent', p_id), p_now);
  end loop;

  if p_plan ? 'wait' then
    select coalesce(max(e.ordinal), 0) into v_before from stint.flow_edge e where e.job_id = p_id;
    insert into stint.flow_edge (job_id, ordinal, on_id, kind)
    select p_id, v_before + c.ordinality, (c.value ->> 'id')::uuid, c.value ->> 'kind'
    from jsonb_array_elements(coalesce(p_plan -> 'spawn', '[]')) with ordinality c;
    get diagnostics v_count = row_count;
    if p_plan @? '$.spawn[*].member.after' then
      perform stint.refuse_circle(p_id, coalesce(v_self.chain_id, p_id));
    end if;
    update stint.flow_job m set pending = v_count, on_failure = p_plan ->> 'wait', delay_ms = null where m.job_id = p_id;
    -- It has started in time: it does not expire in the middle of its work.
    update stint.job j set has_follow_ups = true, expires_at = null where j.id = p_id;
    if v_count = 0 then
      perform stint.unblock(array[p_id]);
    end if;
  end if;

  if v_next is not null then
    perform stint.enqueue_member(
      -- The chain holds its key until it ends. The key is free: its job was deleted by the statement that calls this.
      v_next || case when v_next ->> 'kind' = v_kind and p_plan ? 'dedupe_key'
        then jsonb_build_object('dedupe_key', p_plan ->> 'dedupe_key', 'dedupe_until', 'finished') else '{}' end,
      jsonb_strip_nulls(jsonb_build_object(
        'flow', jsonb_build_object('id', v_self.flow_id), 'name', v_self.name, 'chain', coalesce(v_self.chain_id, p_id),
        'position', v_self.position + 1, 'parent', v_self.parent_id)),
      p_now);
    update stint.flow_job m set last_id = v_id where m.job_id = coalesce(v_self.chain_id, p_id);
  end if;
end
$$;

-- Enqueue a row as a part of a flow, whatever else its own `member` says.
create function stint.enqueue_member(p_row jsonb, p_member jsonb, p_now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row jsonb := p_row || jsonb_build_object('member', coalesce(p_row -> 'member', '{}') || p_member);
begin
  perform from stint.enqueue_row(v_row, p_now);
  perform stint.note_tenant(v_row);
  perform stint.join_flow((v_row ->> 'id')::uuid, v_row ->> 'kind', v_row -> 'member', (v_row ->> 'delay_ms')::bigint);
end
$$;

-- What must commit with the end of an attempt. Every statement in which a job leaves `running`, or ends, calls this for those of its jobs that
-- have follow-ups, and for no others, with the state each job came to. `p_plans` is what their handlers asked for.
create function stint.run_follow_ups(
  p_ids uuid[], p_states stint.job_state[], p_results jsonb[] default null, p_reasons text[] default null, p_plans jsonb[] default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_hints   text[] := '{}';
  v_id      uuid;
  v_plan    jsonb;
  v_all     boolean := true;
  v_error   text;
  v_heads   uuid[];
  v_states  stint.job_state[];
  v_results jsonb[];
  v_reasons text[];
  v_parts   uuid[];
  v_parents uuid[];
  v_made    uuid[];
  v_failed  text;
  v_stop    text[];
  v_ended   uuid[];
begin
  perform stint.follow_up_runs(p_ids, case when p_plans is null then p_states else array(
    select case when e.plan ? 'cancelled' and e.state in ('succeeded', 'dead') then 'cancelled' else e.state end
    from unnest(p_ids, p_states, p_plans) with ordinality as e (id, state, plan, ordinality)
    order by e.ordinality) end);
  -- A flow that is being stopped holds this lock: what this statement decides must not be decided before that.
  perform from stint.flow f
  where f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids)) and not f.compensates
  order by f.id for share;
  perform from stint.flow f
  where f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids)) and f.compensates
  order by f.id for update;

  -- A part of a stopped flow neither continues nor runs again.
  select array_agg(m.job_id) into v_parts
  from stint.flow_job m join stint.flow f on f.id = m.flow_id
  where m.job_id = any (p_ids) and m.undoes is null and f.stopped_at is not null;
  if v_parts is not null then
    perform stint.cancel_waiting(array(
      select e.id from unnest(p_ids, p_states) as e (id, state) where e.id = any (v_parts) and e.state not in ('succeeded', 'dead', 'cancelled')
    ), 'its flow was stopped');
    select
      array_agg(case when e.id = any (v_parts) and e.state not in ('succeeded', 'dead') then 'cancelled' else e.state end order by e.ordinality),
      array_agg(case when e.id = any (v_parts) then null else e.plan end order by e.ordinality)
    into p_states, p_plans
    from unnest(p_ids, p_states, coalesce(p_plans, '{}')) with ordinality as e (id, state, plan, ordinality);
  end if;

  if p_plans is not null then
    -- One subtransaction for all: many in one transaction slow down the whole server.
    begin
      for v_id, v_plan in
        select p.id, p.plan from unnest(p_ids, p_plans) as p (id, plan) where p.plan ?| array['next', 'spawn', 'wait'] order by p.id
      loop
        perform stint.run_plan(v_id, v_plan, v_now);
      end loop;
    exception
      when data_exception or integrity_constraint_violation or sqlstate 'ST003' or sqlstate 'ST007' then
        v_all := false;
    end;
    if not v_all then
      for v_id, v_plan in
        select p.id, p.plan from unnest(p_ids, p_plans) as p (id, plan) where p.plan ?| array['next', 'spawn', 'wait'] order by p.id
      loop
        begin
          perform stint.run_plan(v_id, v_plan, v_now);
        exception
          -- A row that the table refuses. It must not refuse the outcome of its job, so the chain ends here, for all to see.
          when data_exception or integrity_constraint_violation or sqlstate 'ST003' or sqlstate 'ST007' then
            v_error := left('its continuation was refused: ' || sqlerrm, 1000);
            insert into stint.flow (id) values (v_id) on conflict do nothing;
            insert into stint.flow_job (job_id, flow_id, kind) values (v_id, v_id, v_plan ->> 'kind') on conflict do nothing;
            update stint.flow_job m set refused = v_error
            where m.job_id = v_id or m.job_id = (select c.chain_id from stint.flow_job c where c.job_id = v_id);
            -- It waits for children that do not exist: a person must decide.
            update stint.job j set park_reason = 'review', reason = v_error where j.id = v_id and j.park_reason = 'blocked';
        end;
      end loop;
    end if;
    -- A cancel was requested while the handler ran. The job has succeeded, but its chain must not continue.
    if exists (select from unnest(p_plans) as p (plan) where p.plan ? 'cancelled' and p.plan ? 'next') then
      v_ended := stint.cancel_waiting(array(
        select (p.plan #>> '{next,id}')::uuid from unnest(p_plans) as p (plan) where p.plan ? 'cancelled' and p.plan ? 'next'
      ), 'its chain was cancelled');
      p_ids := p_ids || v_ended;
      p_states := p_states || array_fill('cancelled'::stint.job_state, array[cardinality(v_ended)]);
      p_reasons := coalesce(p_reasons, array_fill(null::text, array[cardinality(p_ids) - cardinality(v_ended)]))
        || array_fill('its chain was cancelled'::text, array[cardinality(v_ended)]);
    end if;
    v_made := array(
      select (r.value ->> 'id')::uuid
      from unnest(p_plans) as p (plan)
      cross join lateral jsonb_array_elements(
        coalesce(p.plan -> 'spawn', '[]') || coalesce(jsonb_build_array(p.plan -> 'next'), '[]')) r
      where r.value <> 'null');
    -- By id: the index of ready jobs would be read as a whole.
    select array_agg('ready:' || j.queue) into v_hints from stint.job j where j.id = any (v_made) and j.state::text = 'ready';
    v_hints := coalesce(v_hints, '{}');
  end if;

  update stint.flow_job m
  set state = e.state, ended_at = v_now, result = case when m.compensate is not null then e.result end
  from unnest(p_ids, p_states, coalesce(p_results, '{}')) as e (id, state, result)
  where m.job_id = e.id and e.state in ('succeeded', 'dead', 'cancelled');

  -- A chain that was continued has not ended.
  select
    array_agg(coalesce(m.chain_id, e.id)), array_agg(case when m.refused is null then e.state else 'dead' end),
    array_agg(case when m.refused is null then e.result end), array_agg(coalesce(m.refused, e.reason))
  into v_heads, v_states, v_results, v_reasons
  from unnest(p_ids, p_states, coalesce(p_results, '{}'), coalesce(p_reasons, '{}'), coalesce(p_plans, '{}')) as e (id, state, result, reason, plan)
  left join stint.flow_job m on m.job_id = e.id
  where e.state in ('succeeded', 'dead', 'cancelled')
    and (m.refused is not null or e.plan -> 'next' is null);
  if v_heads is not null then
    v_hints := v_hints || stint.resolve_edges(v_heads, v_states, v_results, v_reasons);
  end if;

  perform stint.lift_latest(array(
    select e.id from unnest(p_ids, p_states) as e (id, state) where e.state in ('succeeded', 'dead', 'cancelled')));

  -- Of a cancelled parent, and of a child whose parent was cancelled while this statement ran.
  select array_agg(distinct m.job_id) into v_parents
  from stint.flow_job m
  where m.job_id in (
      select e.id from unnest(p_ids, p_states) as e (id, state) where e.state = 'cancelled'
      union all
      select c.parent_id from stint.flow_job c where c.job_id = any (p_ids) and c.parent_id is not null)
    and m.state = 'cancelled';
  if v_parents is not null then
    v_hints := v_hints || stint.cancel_children(v_parents, 'the job that waits for it was cancelled');
  end if;

  -- The first failure of a part stops a flow that can be undone. Its parts are undone when the last of them has ended.
  for v_id in
    select f.id from stint.flow f
    where f.compensates and f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids))
    order by f.id
  loop
    select min(format('%s %s is %s', m.kind, m.job_id, case when m.refused is null then m.state else 'dead' end)) into v_failed
    from stint.flow_job m
    where m.flow_id = v_id and m.job_id = any (p_ids) and m.undoes is null and (m.state in ('dead', 'cancelled') or m.refused is not null);
    if v_failed is not null and exists (select from stint.flow f where f.id = v_id and f.stopped_at is null) then
      select s.hints into v_stop from stint.stop_flow(v_id, v_failed) s;
      v_hints := v_hints || v_stop;
    end if;
    v_hints := v_hints || stint.compensate(v_id);
  end loop;

  v_hints := v_hints || stint.free_places(p_ids, p_states);
  perform stint.wake(v_hints);
  return cardinality(v_hints);
end
$$;

-- ---- Replays ---------------------------------------------------------------------------------------

-- Jobs came back from the history: what waited for them waits again, and they wait again for what has not ended.
create function stint.rejoin_flows(p_ids uuid[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_waiting uuid[];
begin
  select array_agg(distinct e.job_id) into v_waiting
  from stint.flow_job m
  join stint.flow_edge e on e.on_id = coalesce(m.chain_id, m.job_id)
  join stint.flow_job w on w.job_id = e.job_id
  where m.job_id = any (p_ids) and e.state is not null and (w.state is null or w.state = 'cancelled');
  perform from stint.job j where j.id = any (v_waiting || p_ids) order by j.id for update;
  perform from stint.flow_job m where m.job_id = any (v_waiting || p_ids) order by m.job_id for update;

  -- A job that has started, or may at any moment, got what it waited for.
  update stint.flow_edge e
  set state = null, result = null, reason = null
  from stint.flow_job m
  where m.job_id = any (p_ids) and e.on_id = coalesce(m.chain_id, m.job_id) and e.job_id = any (v_waiting)
    and not exists (select from stint.job j where j.id = e.job_id and j.park_reason is distinct from 'blocked');
  update stint.flow_job m set state = null, ended_at = null, refused = null where m.job_id = any (p_ids);

  update stint.flow_job m
  set pending = m.is_open::integer + (
    select count(*) from stint.flow_edge e
    where e.job_id = m.job_id and (e.state is null or (m.on_failure <> 'run' and e.state <> 'succeeded')))
  where m.job_id = any (v_waiting || p_ids);

  with blocked as (
    update stint.job j
    set state = 'parked', park_reason = 'blocked'
    from stint.flow_job m
    where j.id = any (p_ids) and m.job_id = j.id and m.pending > 0
    returning j.queue, j.kind, j.priority
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from blocked group by queue, kind, priority;
  update stint.job j
  set reason = (
    select min(stint.failed_dependency(e.kind, e.on_id, e.state)) from stint.flow_edge e where e.job_id = j.id and e.state in ('dead', 'cancelled'))
  where j.id = any (v_waiting || p_ids) and j.park_reason = 'blocked';
  return 0;
end
$$;

select stint.revoke_new_functions();
