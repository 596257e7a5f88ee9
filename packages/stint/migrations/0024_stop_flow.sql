-- Stopping a flow: cancelling its jobs and compensating those that succeeded.
-- oldest code: 1

-- Cancel what waits and ask for the end of what runs. Jobs that another session has locked are skipped: they are being settled, and their settle sees that
-- the flow is stopped, because it waits for the lock on the flow that the caller holds. Returns the hints for workers.
create function stint.stop_flow(p_flow uuid, p_reason text, out cancelled uuid[], out hints text[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_free  uuid[];
  v_ended uuid[];
begin
  update stint.flow f set stopped_at = clock_timestamp(), reason = p_reason where f.id = p_flow and f.stopped_at is null;
  select array_agg(l.id) into v_free
  from (
    select j.id from stint.job j
    where j.id in (select m.job_id from stint.flow_job m where m.flow_id = p_flow and m.state is null and m.undoes is null)
      and not j.cancel_requested
    order by j.id
    for update skip locked
  ) l;
  cancelled := coalesce(v_free, '{}');
  v_ended := stint.cancel_waiting(cancelled, p_reason);
  perform stint.lift_latest(v_ended);
  hints := case when cardinality(v_ended) < cardinality(cancelled) then array['cancel'] else '{}' end;
  hints := hints || coalesce((
    select stint.resolve_edges(
      array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(p_reason))
    from stint.flow_job m
    where m.job_id = any (v_ended)
    having count(*) > 0), '{}');
end
$$;

-- Undo a stopped flow once none of its parts runs: the compensations of the parts that succeeded, the latest first, each after the one before it. Each
-- gets the result of the part that it undoes. Returns the hints for workers.
create function stint.compensate(p_flow uuid) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_part  stint.flow_job;
  v_id    uuid;
  v_after uuid;
  v_first text;
begin
  if exists (select from stint.flow_job m where m.flow_id = p_flow and m.state is null and m.undoes is null) then
    return '{}';
  end if;
  update stint.flow f set compensated_at = clock_timestamp()
  where f.id = p_flow and f.compensates and f.stopped_at is not null and f.compensated_at is null;
  if not found then
    return '{}';
  end if;
  for v_part in
    select m.* from stint.flow_job m
    where m.flow_id = p_flow and m.compensate is not null and m.state = 'succeeded'
    order by m.ended_at desc, m.job_id desc
  loop
    v_id := stint.new_id();
    perform stint.enqueue_member(
      v_part.compensate || jsonb_build_object('id', v_id),
      jsonb_strip_nulls(jsonb_build_object(
        'flow', jsonb_build_object('id', p_flow), 'name', 'undo ' || coalesce(v_part.name, v_part.kind), 'undoes', v_part.job_id,
        'after', case when v_after is not null then jsonb_build_array(v_after) end)),
      clock_timestamp());
    insert into stint.flow_edge (job_id, ordinal, on_id, kind, state, result)
    values (v_id, 0, v_part.job_id, v_part.kind, 'succeeded', v_part.result);
    v_first := coalesce(v_first, v_part.compensate ->> 'queue');
    v_after := v_id;
  end loop;
  return case when v_first is null then '{}' else array['ready:' || v_first] end;
end
$$;

-- Whether a job belongs to a flow that was stopped, and is not one of its compensations. A replay would do again what was undone.
create function stint.is_stopped(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from stint.flow_job m join stint.flow f on f.id = m.flow_id
    where m.job_id = p_id and m.undoes is null and f.stopped_at is not null and f.compensates
  )
$$;

-- Cancel a flow, by its id or by that of one of its jobs. Returns how many jobs were cancelled or asked to stop; null: there is no such flow.
-- `missed` parts were locked: they are being settled, or their leases renewed. To wait for them here could deadlock, because a settle takes the
-- job first and the flow next. The caller repeats the call until none is missed.
create function stint.cancel_flow(p_id uuid, p_actor text, p_reason text, out cancelled integer, out missed integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flow    uuid := coalesce((select m.flow_id from stint.flow_job m where m.job_id = p_id), p_id);
  v_stopped record;
begin
  perform from stint.flow f where f.id = v_flow for update;
  if not found then
    return;
  end if;
  select s.* into v_stopped from stint.stop_flow(v_flow, coalesce(p_reason, 'its flow was cancelled')) s;
  insert into stint.audit (id, actor, action, reason, job_id)
  select stint.new_id(), p_actor, 'cancel', p_reason, c.id from unnest(v_stopped.cancelled) as c (id);
  perform stint.wake(v_stopped.hints || stint.compensate(v_flow));
  cancelled := cardinality(v_stopped.cancelled);
  missed := (
    select count(*)
    from stint.flow_job m
    join stint.job j on j.id = m.job_id
    where m.flow_id = v_flow and m.state is null and m.undoes is null and not j.cancel_requested);
end
$$;

select stint.revoke_new_functions();
