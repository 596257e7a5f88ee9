-- Batches: adding jobs, and closing.
-- oldest code: 1

-- The callback of an open batch, locked in the order of all that count down its jobs.
create function stint.lock_batch(p_flow uuid) returns stint.flow_job
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job;
begin
  select m.* into v_callback from stint.flow_job m where m.flow_id = p_flow and m.name = 'onComplete' and m.chain_id is null limit 1;
  perform from stint.job j where j.id = v_callback.job_id for update;
  select m.* into v_callback from stint.flow_job m where m.job_id = v_callback.job_id for update;
  return v_callback;
end
$$;

-- Add jobs to an open batch. Rows whose id is there already were added by an earlier call whose result was lost. Admission applies as to any enqueue.
create function stint.add_to_batch(p_flow uuid, p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job := stint.lock_batch(p_flow);
  v_row      jsonb;
  v_queues   constant text[] := array(select distinct r.value ->> 'queue' from jsonb_array_elements(p_rows) r);
  v_limited  boolean;
  v_last     integer;
  v_new      integer := 0;
begin
  select coalesce(jsonb_agg(r.value order by r.ordinality), '[]') into p_rows
  from jsonb_array_elements(p_rows) with ordinality r
  where not exists (select from stint.flow_job m where m.job_id = (r.value ->> 'id')::uuid);
  if p_rows = '[]' then
    return;
  end if;
  if v_callback.is_open is not true or v_callback.state is not null then
    raise exception 'stint: batch % is closed', p_flow
      using errcode = 'ST004', detail = p_flow::text, hint = 'Nothing was enqueued. Make it with open: true, and close it after the last job was added.';
  end if;
  select r.limited into v_limited from stint.queue_rules(v_queues) r;
  if v_limited then
    p_rows := stint.deferred_rows(p_rows, stint.admit_rows(p_rows));
  end if;
  select coalesce(max(e.ordinal), 0) into v_last from stint.flow_edge e where e.job_id = v_callback.job_id;
  for v_row in select r.value from jsonb_array_elements(p_rows) with ordinality r order by r.ordinality loop
    perform stint.enqueue_member(v_row, jsonb_build_object('flow', jsonb_build_object('id', p_flow)), clock_timestamp());
    v_new := v_new + 1;
    insert into stint.flow_edge (job_id, ordinal, on_id, kind)
    values (v_callback.job_id, v_last + v_new, (v_row ->> 'id')::uuid, v_row ->> 'kind');
  end loop;
  if p_rows @? '$[*].member.after' then
    perform stint.refuse_circle(v_callback.job_id, v_callback.job_id);
  end if;
  update stint.flow_job m set pending = m.pending + v_new where m.job_id = v_callback.job_id;
  if v_limited then
    perform stint.jobs_added(v_queues);
  end if;
  perform stint.wake(array(select 'ready:' || (r.value ->> 'queue') from jsonb_array_elements(p_rows) r));
end
$$;

create function stint.close_batch(p_flow uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job := stint.lock_batch(p_flow);
begin
  if v_callback.job_id is null then
    raise exception 'stint: there is no batch %', p_flow using errcode = 'ST003', detail = p_flow::text, hint = 'Nothing was changed.';
  end if;
  if v_callback.is_open then
    update stint.flow_job m set is_open = false, pending = m.pending - 1 where m.job_id = v_callback.job_id;
    if v_callback.pending = 1 then
      perform stint.wake(stint.unblock(array[v_callback.job_id]));
    end if;
  end if;
end
$$;

select stint.revoke_new_functions();
