-- Places under a limit: taking and freeing them, and letting waiting jobs in.
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
  v_closed   boolean := false;
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
    -- The common case: there is a place for every job. Jobs that were let in, or that take their places again, hold theirs already. If there is none, the
    -- shares of workers are closed, and only their running jobs count.
    loop
      with wanted as materialized (
        select w.id, w.key, w.max
        from unnest(v_ids, v_keys, v_max) as w (id, key, max)
        where not exists (select from stint.limit_place p where p.job_id = w.id and p.key = w.key and p.holds)
      ), judged as materialized (
        select coalesce(bool_and(c.free), true) as free
        from (
          select
            count(*) <= w.max - (select count(*) from (select from stint.limit_place p where p.key = w.key and p.holds limit w.max) held) - stint.shared(w.key)
              and not exists (select from stint.limit_place p where p.key = w.key and not p.holds) as free
          from wanted w
          group by w.key, w.max
        ) c
      ), taken as (
        insert into stint.limit_place (job_id, key, holds, run_at)
        select w.id, w.key, true, '-infinity' from wanted w, judged where judged.free
      )
      select free into v_free from judged;
      exit when v_free or v_closed;
      v_closed := true;
      exit when not stint.close_shares(array(select distinct stint.rule_of(k) from unnest(v_keys) k), p_ids, p_leases);
    end loop;
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
          insert into stint.limit_place (job_id, key, holds, priority, run_at, beside)
          values (
            v_job.id, v_full, false, case when stint.is_ordered(v_full) then 0 else v_job.priority end,
            case when stint.is_ordered(v_full) then '-infinity' else v_job.run_at end, nullif(array_remove(v_job.keys, v_full), '{}'));
        end if;
      end if;
    end loop;
    v_hints := stint.park_at_limit(v_waits, v_at, p_ids, p_leases);
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
-- of their queue. `p_claimed` and `p_leases` are the fences. Returns the hints for workers.
create function stint.park_at_limit(p_ids uuid[], p_keys text[], p_claimed uuid[], p_leases uuid[]) returns text[]
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
    from unnest(p_claimed, p_leases) as m (id, lease_id)
    where j.id = any (p_ids) and j.id = m.id and j.lease_id = m.lease_id and j.state = 'running'
    returning j.queue, j.kind, j.priority
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from parked group by queue, kind, priority;

  with head as materialized (
    select j.id, k.key, j.priority, j.run_at, j.queue, j.kind, j.limits, j.tenant
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
    insert into stint.limit_place (job_id, key, holds, priority, run_at, beside)
    select h.id, h.key, false, h.priority, h.run_at, nullif(array_remove(stint.keys_of(h.limits, h.kind, h.queue, h.tenant), h.key), '{}') from head h
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
  -- Also the full keys themselves: a place may be free of which no waiting job was notified.
  return stint.let_in(array(select distinct k from unnest(v_freed || p_keys) k));
end
$$;

-- ---- Freeing places --------------------------------------------------------------------------------

-- Jobs have left `running`, or ended. A job that is ready, or quarantined, keeps its places. A job that failed keeps its turn in an ordered key that it
-- blocks until it succeeds or is cancelled. A job that ends while it waits may be the one for which a place of another key was left free (let_in): those
-- keys are looked at, too. Returns the hints for workers.
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
    returning p.key, p.holds, p.beside
  )
  select array_agg(k.key) into v_freed from freed f cross join lateral unnest(case when f.holds then array[f.key] else f.beside end) as k (key);
  return case when v_freed is null then '{}' else stint.let_in(v_freed) end;
end
$$;

-- Gives free places of these keys to the jobs that wait for them, in their order. A job needs a place of every other key, too: if one of those is full, it
-- continues waiting there, with its old priority and time, and the next job is tried. As many jobs go as the key has free places: all of a long row would
-- move to and fro between two keys at each end of a job. Of the jobs behind them, those are let in that need none of the full keys.
-- Jobs that are let in hold their places until they are claimed. Returns the hints for workers, one for each job.
create function stint.let_in(p_keys text[]) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- How many waiting jobs are looked at beyond those that go to another key.
  c_beyond constant integer := 100;
  v_locked text[];
  v_key    text;
  v_place  record;
  v_job    record;
  v_other  text;
  v_others text[];
  v_full   text[] := '{}';
  v_missed text[] := '{}';
  v_left   text[];
  v_state  stint.job_state;
  v_hints  text[] := '{}';
  v_count  integer := 0;
  v_free   bigint;
  v_moved  integer;
  v_seen   integer;
  v_pauses constant boolean := exists (select from stint.pause);
begin
  -- The snapshot of a whole transaction does not show the places that others have taken since. And a transaction that may stay open must lock no key.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') or current_setting('stint_transaction.stays_open', true) = 'on' then
    insert into stint.limit_missed (key) select distinct k from unnest(p_keys) k;
    return '{limits}';
  end if;

  -- With the keys that the next of the waiting jobs need beside: locking them later would be out of order. Every freed key is locked before it is known
  -- whether a job waits for it. Otherwise a job that begins to wait in this moment would not see the place, and this statement would not see the job.
  v_locked := stint.lock_keys(array(
    select unnest(p_keys)
    union
    select unnest(w.beside)
    from unnest(p_keys) as k (key)
    cross join lateral (
      select p.beside from stint.limit_place p where p.key = stint.by_index(k.key) and not p.holds order by p.priority, p.run_at, p.seq limit 20
    ) w
    -- The turn in an ordered key is taken alone.
    where not stint.is_ordered(k.key)));

  foreach v_key in array array(select distinct k from unnest(p_keys) k order by k) loop
    v_free := null;
    v_moved := 0;
    v_seen := 0;
    for v_place in
      select p.ctid, p.job_id, p.ordered, p.priority, p.run_at, p.beside
      from stint.limit_place p
      where p.key = stint.by_index((select v_key)) and not p.holds
      order by p.priority, p.run_at, p.seq
      limit 1000
    loop
      if v_key <> all (v_locked) then
        v_missed := v_missed || v_key;
        exit;
      end if;
      v_free := coalesce(v_free, stint.free_places_of(v_key), 1000000);
      exit when v_free <= 0;
      v_seen := v_seen + 1;
      if v_count >= 500 or v_seen = 1000 then
        v_missed := v_missed || v_key;
        exit;
      end if;
      if v_moved >= v_free then
        exit when v_seen > v_moved + c_beyond;
        continue when v_place.beside && v_full;
      end if;
      select j.ctid, j.id, j.limits, j.kind, j.queue, j.tenant, j.priority, j.run_at into v_job
      from stint.job j
      where j.id = v_place.job_id and j.state::text = 'parked' and j.park_reason = 'limit'
      for update skip locked;
      if not found then
        if exists (select from stint.job j where j.id = v_place.job_id and j.state::text = 'parked' and j.park_reason = 'limit') then
          -- Another session has locked it. In an ordered key no job may pass it.
          v_missed := v_missed || v_key;
          exit when v_place.ordered is not null;
        else
          delete from stint.limit_place p where p.job_id = v_place.job_id and p.key = v_key and not p.holds returning p.beside into v_left;
          v_missed := v_missed || v_left;
        end if;
        continue;
      end if;

      -- A job that no worker may claim now takes no place from the others: it is paused, and waits as a ready job; or another enqueue has moved its time. An
      -- ordered key is not passed.
      if v_place.ordered is null and (v_job.run_at > clock_timestamp() or v_pauses and stint.is_claim_paused(v_job.queue, v_job.kind)) then
        delete from stint.limit_place p where p.job_id = v_job.id and p.key = v_key and not p.holds returning p.beside into v_left;
        v_missed := v_missed || v_left;
        v_state := case when v_job.run_at > clock_timestamp() then 'scheduled' else 'ready' end;
        update stint.job j set state = v_state, run_at = greatest(j.run_at, clock_timestamp()), park_reason = null where j.ctid = v_job.ctid;
        insert into stint.tally_delta (queue, kind, priority, parked, scheduled)
        values (v_job.queue, v_job.kind, v_job.priority, -1, (v_state = 'scheduled')::integer);
        v_hints := v_hints || case when v_state = 'scheduled' then array['due'] end;
        v_count := v_count + 1;
        continue;
      end if;

      v_other := null;
      v_others := '{}';
      -- The turn in an ordered key is the first place that a job takes. The others follow when it is claimed.
      if v_place.ordered is null then
        v_others := array_remove(stint.keys_of(v_job.limits, v_job.kind, v_job.queue, v_job.tenant), v_key);
        if v_others <> '{}' then
          v_others := array(
            select k from unnest(v_others) k
            where not exists (select from stint.limit_place p where p.job_id = v_job.id and p.key = k and p.holds));
        end if;
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
        v_full := v_full || v_other;
        if v_moved < v_free then
          update stint.limit_place p set key = v_other, beside = v_key || array_remove(v_others, v_other) where p.job_id = v_job.id and p.key = v_key;
          v_moved := v_moved + 1;
        end if;
        continue;
      end if;

      update stint.limit_place p set holds = true, at = clock_timestamp(), beside = null where p.ctid = v_place.ctid and p.job_id = v_job.id and not p.holds;
      if not found then
        -- Another session has changed its priority, and committed before the job was locked here.
        update stint.limit_place p set holds = true, at = clock_timestamp(), beside = null where p.job_id = v_job.id and p.key = v_key;
      end if;
      if v_others <> '{}' then
        insert into stint.limit_place (job_id, key, holds, priority, run_at)
        select v_job.id, k, true, v_place.priority, v_place.run_at from unnest(v_others) k;
      end if;
      v_state := case when v_job.run_at > clock_timestamp() then 'scheduled' else 'ready' end;
      -- Not before now: claims do not look behind the jobs that they have taken.
      update stint.job j set state = v_state, run_at = greatest(j.run_at, clock_timestamp()), park_reason = null where j.ctid = v_job.ctid;
      insert into stint.tally_delta (queue, kind, priority, parked, scheduled)
      values (v_job.queue, v_job.kind, v_job.priority, -1, (v_state = 'scheduled')::integer);
      v_hints := v_hints || case v_state when 'scheduled' then 'due' else 'ready:' || v_job.queue end;
      v_count := v_count + 1;
      v_free := v_free - 1;
      exit when v_free <= 0;
    end loop;
  end loop;

  if v_missed <> '{}' then
    insert into stint.limit_missed (key) select distinct k from unnest(v_missed) k;
    v_hints := v_hints || 'limits'::text;
  end if;
  return v_hints;
end
$$;

-- They run many small statements: planning these costs more than they do. Plans may be made while the tables are empty, and must look up by index.
alter function stint.take_places set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off;
alter function stint.free_places set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off;
alter function stint.let_in set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off;

select stint.revoke_new_functions();
