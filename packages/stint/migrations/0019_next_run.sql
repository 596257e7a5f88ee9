-- Jobs that plan their next run.
-- oldest code: 1

-- The next run of a job, planned by its handler (`again`). Written while the job runs, so that it is not lost if the worker dies.
create table stint.next_run (
  job_id  uuid primary key,
  row     jsonb not null,                          -- as enqueue_rows takes it
  stale   boolean not null default false,          -- the attempt that planned it did not end the job
  made_at timestamptz                              -- set when the next run exists
);
create index next_run_made on stint.next_run (made_at) where made_at is not null;

-- Called by run_follow_ups for jobs that leave `running` or end, in the same statement. A job that succeeded or died has its next run from now on;
-- a success counts only if its own attempt planned it. Cancelling ends the series. The next run keeps the dedupe key of the job: the key's
-- holder is deleted by the same transaction, so that no other job can hold it. Schedules that wait for a job to end become due.
create function stint.follow_up_runs(p_ids uuid[], p_states stint.job_state[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now  timestamptz := clock_timestamp();
  v_next record;
begin
  for v_next in
    select n.job_id, n.row, n.stale, e.state
    from unnest(p_ids, p_states) as e (id, state)
    join stint.next_run n on n.job_id = e.id
    where n.made_at is null
    order by n.job_id
  loop
    if v_next.state not in ('succeeded', 'dead', 'cancelled') then
      update stint.next_run n set stale = true where n.job_id = v_next.job_id;
    elsif v_next.state = 'cancelled' or (v_next.state = 'succeeded' and v_next.stale) then
      delete from stint.next_run n where n.job_id = v_next.job_id;
    else
      perform from stint.enqueue_row(v_next.row, v_now);
      perform stint.note_tenant(v_next.row);
      update stint.next_run n set made_at = v_now where n.job_id = v_next.job_id;
    end if;
  end loop;

  -- A row that another session has locked is left to its own time: the outcome of a job waits for no other transaction.
  update stint.schedule s
  set due_at = v_now
  where s.name in (
    select w.name
    from stint.schedule w
    where w.overlap = 'queue' and w.next_slot <= v_now and w.due_at > v_now
      and w.last_job_id in (
        select e.id from unnest(p_ids, p_states) as e (id, state) where e.state in ('succeeded', 'dead', 'cancelled')
        union all
        select m.chain_id from stint.flow_job m where m.job_id = any (p_ids) and m.chain_id is not null)
    for update skip locked);
  if found then
    perform stint.wake(array['schedule'], null);
  end if;
end
$$;

select stint.revoke_new_functions();
