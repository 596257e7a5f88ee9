-- Places under a limit: taking and freeing them, letting waiting jobs in, and their upkeep.
-- oldest code: 1

-- ---- Taking places ---------------------------------------------------------------------------------

-- A worker has claimed these jobs, and is about to start their handlers. A job takes all its places, or is parked until the first full key has one for it:
-- no attempt is spent, and nothing is logged. `outcome`: `taken`, `waits`, or `lost` if the fence no longer holds. A repeat returns the same.
create function stint.take_places(p_ids uuid[], p_epochs bigint[], p_leases uuid[])
returns table (id uuid, outcome text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  -- One entry for each job and key that has a limit in force.
  v_ids      uuid[];
  v_keys     text[];
  v_max      integer[];
  v_unmarked boolean;
  v_free     boolean;
  v_job      record;
  v_full     text;
  v_waits    uuid[] := '{}';
  v_at       text[] := '{}';
  v_hints    text[] := '{}';
begin
  select array_agg(j.id), array_agg(k.key), array_agg(coalesce(own.max, rule.max, 1)), bool_or(j.has_follow_ups is null)
  into v_ids, v_keys, v_max, v_unmarked
  from unnest(p_ids, p_epochs, p_leases) as m (id, epoch, lease_id)
  join stint.job j on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id
  cross join lateral unnest(
    j.limits || array['queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.kind || '=' || j.tenant, 'tenant:*=' || j.tenant]) as k (key)
  left join stint.limit own on own.name = k.key
  left join stint.limit rule on rule.name = split_part(k.key, '=', 1)
  where own.max is not null or rule.max is not null or stint.is_ordered(k.key);

  if v_ids is not null then
    perform stint.lock_keys(array(select distinct k from unnest(v_keys) k));
    -- The common case: there is a place for every job. Jobs that were let in, or that take their places again, hold theirs already.
    with wanted as materialized (
      select w.id, w.key, w.max
      from unnest(v_ids, v_keys, v_max) as w (id, key, max)
      where not exists (select from stint.limit_place p where p.job_id = w.id and p.key = w.key and p.holds)
    ), judged as materialized (
      select coalesce(bool_and(c.free), true) as free
      from (
        select
          count(*) <= w.max - (select count(*) from (select from stint.limit_place p where p.key = w.key and p.holds limit w.max) held)
            and not exists (select from stint.limit_place p where p.key = w.key and not p.holds) as free
        from wanted w
        group by w.key, w.max
      ) c
    ), taken as (
      insert into stint.limit_place (job_id, key, holds, run_at)
      select w.id, w.key, true, '-infinity' from wanted w, judged where judged.free
    )
    select free into v_free from judged;
  end if;

  if not v_free then
    for v_job in
      select j.id, j.priority, j.run_at, j.park_reason, w.keys
      from (
        select w.id, array_agg(w.key order by stint.is_ordered(w.key) desc, w.key collate "C") as keys
        from unnest(v_ids, v_keys) as w (id, key)
        where not exists (select from stint.limit_place p where p.job_id = w.id and p.key = w.key and p.holds)
        group by w.id
      ) w
      join stint.job j on j.id = w.id
      join unnest(p_ids, p_epochs, p_leases) as m (id, epoch, lease_id) on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id
      order by j.priority, j.run_at, j.id
    loop
      foreach v_full in array v_job.keys loop
        -- A job does not pass those that wait for the same key.
        exit when stint.is_full(v_full) or exists (select from stint.limit_place p where p.key = v_full and not p.holds);
        v_full := null;
      end loop;
      if v_full is null then
        insert into stint.limit_place (job_id, key, holds, run_at) select v_job.id, k, true, '-infinity' from unnest(v_job.keys) k;
      else
        v_waits := v_waits || v_job.id;
        v_at := v_at || v_full;
        -- A quarantined job is claimed from its quarantine again.
        if v_job.park_reason is null then
          insert into stint.limit_place (job_id, key, holds, priority, run_at)
          values (
            v_job.id, v_full, false, case when stint.is_ordered(v_full) then 0 else v_job.priority end,
            case when stint.is_ordered(v_full) then '-infinity' else v_job.run_at end);
        end if;
      end if;
    end loop;
    v_hints := stint.park_at_limit(v_waits, v_at);
  end if;
  if v_unmarked then
    update stint.job j set has_follow_ups = true where j.id = any (v_ids) and j.has_follow_ups is null;
  end if;
  perform stint.wake(v_hints);

  return query
    select m.id, case when m.id = any (v_waits) then 'waits' when j.id is null then 'lost' else 'taken' end
    from unnest(p_ids, p_epochs, p_leases) as m (id, epoch, lease_id)
    left join stint.job j on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id;
end
$$;

-- Parks running jobs whose waiting rows have been written, each at the key beside it. What they hold of other keys is free again, except their turns in
-- ordered keys. Ready jobs behind them that would come to the same full keys are parked with them: a long row of such jobs must not hold up the others
-- of their queue. Returns the hints for workers.
create function stint.park_at_limit(p_ids uuid[], p_keys text[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_freed text[];
begin
  with parked as (
    update stint.job j
    set state = 'parked', park_reason = coalesce(j.park_reason, 'limit'), attempts = j.attempts - 1, has_follow_ups = true,
        -- A quarantined job is looked for again later.
        run_at = case when j.park_reason is null then j.run_at else clock_timestamp() end,
        lease_id = null, lease_until = null, worker = null, claimed_at = null
    where j.id = any (p_ids) and j.state = 'running'
    returning j.queue, j.kind, j.priority
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from parked group by queue, kind, priority;

  with head as materialized (
    select j.id, k.key, j.priority, j.run_at, j.queue, j.kind
    from (
      select j.queue, array_agg(distinct f.key) as keys
      from unnest(p_ids, p_keys) as f (id, key) join stint.job j on j.id = f.id
      where not stint.is_ordered(f.key)
      group by j.queue
    ) full_keys
    cross join lateral (
      select r.id, r.kind, r.queue, r.tenant, r.limits
      from stint.job r
      where r.state = 'ready' and r.queue = stint.by_index(full_keys.queue)
      order by r.priority, r.run_at, r.id
      limit 1000
    ) r
    cross join lateral (
      select k.key
      from unnest(
        r.limits || array['queue:' || r.queue, 'kind:' || r.kind, 'tenant:' || r.kind || '=' || r.tenant, 'tenant:*=' || r.tenant]) as k (key)
      where k.key = any (full_keys.keys)
      limit 1
    ) k
    join stint.job j on j.id = r.id
    where j.state::text = 'ready' and not exists (select from stint.limit_place p where p.job_id = r.id)
    for update of j skip locked
  ), parked as (
    update stint.job j set state = 'parked', park_reason = 'limit', has_follow_ups = true
    from head where j.id = head.id
  ), waiting as (
    insert into stint.limit_place (job_id, key, holds, priority, run_at)
    select h.id, h.key, false, h.priority, h.run_at from head h
    order by h.priority, h.run_at, h.id
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from head group by queue, kind, priority;

  with freed as (
    delete from stint.limit_place p
    where p.job_id = any (p_ids) and p.holds and p.ordered is null
      and exists (select from stint.job j where j.id = p.job_id and j.park_reason = 'limit')
    returning p.key
  )
  select array_agg(distinct key) into v_freed from freed;
  -- Also the full keys themselves: a place may be free that no waiting job was told of.
  return stint.let_in(array(select distinct k from unnest(v_freed || p_keys) k));
end
$$;

-- ---- Freeing places --------------------------------------------------------------------------------

-- Jobs have left `running`, or ended. A job that is ready, or quarantined, keeps its places. A job that failed keeps its turn in an ordered key that it
-- blocks until it succeeds or is cancelled. Returns the hints for workers.
create function stint.free_places(p_ids uuid[], p_states stint.job_state[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_freed text[];
begin
  with freed as (
    delete from stint.limit_place p
    using unnest(p_ids, p_states) as e (id, state)
    where p.job_id = e.id
      and e.state <> 'ready'
      and (p.ordered is distinct from 'block' or e.state in ('succeeded', 'cancelled'))
      and not (e.state = 'parked' and exists (select from stint.job j where j.id = e.id and j.park_reason = 'quarantine'))
    returning p.key, p.holds
  )
  select array_agg(distinct key) into v_freed from freed where holds;
  return case when v_freed is null then '{}' else stint.let_in(v_freed) end;
end
$$;

-- Gives free places of these keys to the jobs that wait for them, in their order. A job needs a place of every other key, too: if one of those is full, it
-- goes on waiting there, with its old priority and time, and the next job is tried. Jobs that are let in hold their places until they are claimed.
-- Returns the hints for workers.
create function stint.let_in(p_keys text[]) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_locked text[];
  v_awaited text[];
  v_key    text;
  v_place  stint.limit_place;
  v_job    stint.job;
  v_other  text;
  v_others text[];
  v_missed text[] := '{}';
  v_state  stint.job_state;
  v_hints  text[] := '{}';
  v_count  integer := 0;
begin
  -- With the keys that the first of the waiting jobs need beside: locking them later would be out of order. Every freed key is locked before it is known
  -- whether a job waits for it. Otherwise a job that begins to wait in this moment would not see the place, and this statement would not see the job.
  v_locked := stint.lock_keys(p_keys || array(
    select distinct o.key
    from unnest(p_keys) as k (key)
    cross join lateral (
      select p.job_id from stint.limit_place p where p.key = k.key and not p.holds order by p.priority, p.run_at, p.seq limit 20
    ) w
    join stint.job j on j.id = w.job_id
    cross join lateral unnest(stint.keys_of(j.limits, j.kind, j.queue, j.tenant)) as o (key)));
  v_awaited := array(
    select distinct k from unnest(p_keys) k where exists (select from stint.limit_place p where p.key = k and not p.holds) order by k);

  foreach v_key in array v_awaited loop
    if v_key <> all (v_locked) then
      v_missed := v_missed || v_key;
      continue;
    end if;
    for v_place in
      select p.* from stint.limit_place p where p.key = v_key and not p.holds order by p.priority, p.run_at, p.seq
    loop
      exit when stint.is_full(v_key);
      if v_count >= 500 then
        v_missed := v_missed || v_key;
        exit;
      end if;
      select j.* into v_job
      from stint.job j
      where j.id = v_place.job_id and j.state = 'parked' and j.park_reason = 'limit'
      for update skip locked;
      if not found then
        if exists (select from stint.job j where j.id = v_place.job_id and j.state = 'parked' and j.park_reason = 'limit') then
          -- Another session has locked it. In an ordered key no job may pass it.
          v_missed := v_missed || v_key;
          exit when v_place.ordered is not null;
        else
          delete from stint.limit_place p where p.job_id = v_place.job_id and p.key = v_key and not p.holds;
        end if;
        continue;
      end if;

      v_others := array(
        select k from unnest(stint.keys_of(v_job.limits, v_job.kind, v_job.queue, v_job.tenant)) k
        where k <> v_key and not exists (select from stint.limit_place p where p.job_id = v_job.id and p.key = k and p.holds));
      v_other := null;
      if v_place.ordered is not null then
        -- The turn is the first place that a job takes. The others follow when it is claimed.
        v_others := '{}';
      end if;
      foreach v_other in array v_others loop
        if v_other <> all (v_locked) then
          v_locked := v_locked || stint.lock_keys(array[v_other]);
        end if;
        exit when v_other <> all (v_locked) or stint.is_full(v_other);
        v_other := null;
      end loop;
      if v_other is not null and v_other <> all (v_locked) then
        v_missed := v_missed || v_key;
        continue;
      elsif v_other is not null then
        update stint.limit_place p set key = v_other where p.job_id = v_job.id and p.key = v_key;
        continue;
      end if;

      update stint.limit_place p set holds = true, at = clock_timestamp() where p.job_id = v_job.id and p.key = v_key;
      insert into stint.limit_place (job_id, key, holds, priority, run_at)
      select v_job.id, k, true, v_place.priority, v_place.run_at from unnest(v_others) k;
      v_state := case when v_job.run_at > clock_timestamp() then 'scheduled' else 'ready' end;
      -- Not before now: claims do not look behind the jobs that they have taken.
      update stint.job j set state = v_state, run_at = greatest(j.run_at, clock_timestamp()), park_reason = null where j.id = v_job.id;
      insert into stint.tally_delta (queue, kind, priority, parked, scheduled)
      values (v_job.queue, v_job.kind, v_job.priority, -1, (v_state = 'scheduled')::integer);
      v_hints := v_hints || case v_state when 'scheduled' then 'due' else 'ready:' || v_job.queue end;
      v_count := v_count + 1;
    end loop;
  end loop;

  if v_missed <> '{}' then
    insert into stint.limit_missed (key) select distinct k from unnest(v_missed) k;
    v_hints := v_hints || 'limits'::text;
  end if;
  return array(select distinct h from unnest(v_hints) h);
end
$$;


-- ---- Upkeep ----------------------------------------------------------------------------------------

-- Looks again at the keys that were missed. With `p_all`, also at all others: it removes the places of jobs that no longer run (their rows were deleted by
-- hand), takes places back from ready jobs that no worker has claimed for 30 seconds while others wait, and lets jobs in wherever there is room. Returns
-- whether some key has to be looked at again soon.
create function stint.tend_limits(p_all boolean) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys text[];
  v_more text[] := '{}';
begin
  with missed as (
    delete from stint.limit_missed m
    where m.ctid = any (array(select f.ctid from stint.limit_missed f limit 1000 for update skip locked))
    returning m.key
  )
  select coalesce(array_agg(distinct key), '{}') into v_keys from missed;

  if p_all then
    with held as materialized (
      select p.job_id, p.key, p.ordered, p.at, j.state, j.park_reason
      from stint.limit_place p left join stint.job j on j.id = p.job_id
      where p.holds and p.at < clock_timestamp() - interval '5 seconds'
    ), freed as (
      delete from stint.limit_place p
      using held h
      where p.job_id = h.job_id and p.key = h.key and p.holds and p.at = h.at
        and case
          when h.state is null then h.ordered is distinct from 'block' or not exists (select from stint.history_dead d where d.id = h.job_id)
          when h.state = 'running' or h.ordered is not null then false
          when h.state = 'ready' then
            h.at < clock_timestamp() - interval '30 seconds' and exists (select from stint.limit_place w where w.key = h.key and not w.holds)
          else h.park_reason is distinct from 'quarantine' and h.park_reason is distinct from 'limit'
        end
      returning p.key
    )
    select coalesce(array_agg(distinct key), '{}') into v_more from freed;
    v_keys := v_keys || v_more || array(
      with recursive awaited (key) as (
        (select p.key from stint.limit_place p where not p.holds order by p.key limit 1)
        union all
        select (select p.key from stint.limit_place p where not p.holds and p.key > a.key order by p.key limit 1)
        from awaited a where a.key is not null
      )
      select a.key from awaited a where a.key is not null and not stint.is_full(a.key) limit 1000);
  end if;
  if v_keys <> '{}' then
    perform stint.wake(stint.let_in(array(select distinct k from unnest(v_keys) k)));
  end if;
  return exists (select from stint.limit_missed);
end
$$;

-- PostgreSQL grants execute on new functions to everyone by default.
revoke all on all functions in schema stint from public;
