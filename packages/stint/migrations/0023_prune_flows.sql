-- Pruning flows, and the dead jobs that flows still wait for.
-- oldest code: 1

-- Whether a live job waits for this one. A dead job that is waited for is not pruned: only a replay of it lets the other run.
create function stint.is_waited_for(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select
    from stint.flow_edge e
    join stint.flow_job w on w.job_id = e.job_id
    where e.on_id = coalesce((select m.chain_id from stint.flow_job m where m.job_id = p_id), p_id) and w.state is null
  )
$$;

-- Delete flows that began long ago and whose jobs have all left the history, up to a limit. Returns how many.
create function stint.prune_flows(p_keep_ms bigint, p_limit integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flow uuid;
  v_gone integer := 0;
begin
  for v_flow in
    select f.id
    from stint.flow f
    where f.created_at < stint.by_index(statement_timestamp() - p_keep_ms * interval '1 millisecond')
    order by f.created_at, f.id
    limit 20000
  loop
    exit when v_gone >= p_limit;
    -- Looked up one by one: the planner would rather read the whole history.
    continue when exists (select from stint.flow_job m where m.flow_id = v_flow and m.state is null)
      or exists (
        select from stint.flow_job m
        where m.flow_id = v_flow and (select true from stint.history h where h.id = stint.by_index(m.job_id) limit 1));
    delete from stint.flow_edge e where e.job_id in (select m.job_id from stint.flow_job m where m.flow_id = v_flow);
    delete from stint.flow_job m where m.flow_id = v_flow;
    delete from stint.flow f where f.id = v_flow;
    v_gone := v_gone + 1;
  end loop;
  return v_gone;
end
$$;

select stint.revoke_new_functions();
