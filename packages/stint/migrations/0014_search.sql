-- The window of jobs that a search reads.
-- oldest code: 1

-- The newest jobs between two ids, newest first: one window of a search, with matching and other jobs. Its cost is its
-- number of rows, whatever the number of jobs and the statistics, because the planner may only read the primary keys in
-- their order. The lower end bounds the dead index entries that are read while another session's transaction stays open:
-- they do not count as rows. No payload and no result: both may be megabytes.
create function stint.newest_between(p_before uuid, p_from uuid, p_live boolean, p_done boolean, p_dead boolean, p_rows integer)
returns table (
  id uuid, kind text, queue text, state stint.job_state, priority smallint, run_at timestamptz, created_at timestamptz,
  finished_at timestamptz, attempts integer, max_attempts integer, crashes integer, run integer, worker text,
  claimed_at timestamptz, key text, tenant text, tags text[], park_reason text, reason text, log jsonb
)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_sort = off
set enable_incremental_sort = off
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
as $$
  (
    select
      id, kind, queue, state, priority, run_at, created_at, null::timestamptz as finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, park_reason, reason, log
    from stint.job
    where p_live and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  union all
  -- The states are written out, so that only the partitions they are in are looked at.
  (
    select
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, null, reason, log
    from stint.history
    where p_done and state in ('succeeded', 'cancelled') and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  union all
  (
    select
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, max_attempts, crashes,
      run, worker, claimed_at, key, tenant, tags, null, reason, log
    from stint.history
    where p_dead and state = 'dead' and id < p_before and id >= p_from
    order by id desc
    limit p_rows
  )
  order by id desc
  limit p_rows
$$;

select stint.revoke_new_functions();
