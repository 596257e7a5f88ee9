-- Limits: how many jobs of a queue, a kind, a tenant or a key may run at once, and ordered keys.
-- oldest code: 1

-- A rule or one key of it. Rules: `queue:emails`, `kind:charge`, `tenant:charge` (each tenant of that kind), `tenant:*` (each tenant), `key:account` (a
-- named key of several kinds), `kind:charge#1` (the first unnamed key of a kind). One key of a rule is `key:account=42`; its own row wins. Names have
-- no `=`, so everything before the first one is the rule. Ordered keys have no row, because one job runs at a time: `order:charge=42`, where a job that fails
-- blocks those behind it, and `pass:charge=42`, where they pass it.
create table stint.limit (
  name         text collate "C" primary key,
  max          integer not null,
  declared_max integer,                            -- the value that code declared last; null: none did
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null,
  constraint limit_max_is_in_range check (max between 1 and 1000000 and declared_max between 1 and 1000000),
  constraint limit_name_is_a_rule_or_key check (
    name ~ '^(queue|kind|tenant|key):[A-Za-z0-9*][A-Za-z0-9._:/-]{0,127}(#[0-9]{1,2})?(=|$)' and length(name) <= 768)
);

-- The places of running jobs, and the jobs that wait for one. A job takes a place of every limit that it is under when it is claimed, before its handler
-- starts, all of them or none. The places in use are counted from these rows under the lock of their key, never kept in a counter. A job waits at one key:
-- the first that is full.
create table stint.limit_place (
  job_id   uuid not null,
  key      text collate "C" not null,
  holds    boolean not null,
  -- Of an ordered key: what becomes of the turn when the job fails.
  ordered  text generated always as (case when starts_with(key, 'order:') then 'block' when starts_with(key, 'pass:') then 'pass' end) stored,
  priority smallint not null default 0,
  run_at   timestamptz not null,
  seq      bigint generated always as identity,
  at       timestamptz not null default clock_timestamp(),
  xid      xid8,                                   -- of the transaction that enqueued it, until that commits (admit_ordered)
  primary key (job_id, key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, fillfactor = 80);
create index limit_place_held on stint.limit_place (key) where holds;
create index limit_place_waiting on stint.limit_place (key, priority, run_at, seq) where not holds;
create index limit_place_unchecked on stint.limit_place (xid) where xid is not null;

-- Keys whose waiting jobs could not be looked at, because another session had locked a job or another key. Upkeep looks again. Without a primary key:
-- a statement that frees a place must not wait for another one that reports the same key.
create table stint.limit_missed (
  key text not null
);
alter table stint.limit_missed replica identity full;

-- ---- Keys ------------------------------------------------------------------------------------------

create function stint.is_ordered(p_key text) returns boolean
language sql immutable parallel safe
as $$
  select starts_with(p_key, 'order:') or starts_with(p_key, 'pass:')
$$;

create function stint.rule_of(p_key text) returns text
language sql immutable parallel safe
as $$
  select split_part(p_key, '=', 1)
$$;

-- How many jobs may hold the key at once. Null: no limit is in force.
create function stint.max_of(p_key text) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when stint.is_ordered(p_key) then 1
    else coalesce(
      (select l.max from stint.limit l where l.name = p_key),
      (select l.max from stint.limit l where l.name = stint.rule_of(p_key)))
  end
$$;

-- Every key with a limit in force that a job is under, an ordered key first.
create function stint.keys_of(p_limits text[], p_kind text, p_queue text, p_tenant text) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select array(
    select k.key
    from (
      select unnest(p_limits)
      union
      select l.name from stint.limit l where l.name in ('queue:' || p_queue, 'kind:' || p_kind)
      union
      select l.name || '=' || p_tenant from stint.limit l where l.name in ('tenant:' || p_kind, 'tenant:*') and p_tenant is not null
    ) as k (key)
    where stint.max_of(k.key) is not null
    order by stint.is_ordered(k.key) desc, k.key collate "C")
$$;

-- Whether the keys of a job are texts of the form above, and few.
create function stint.are_limits(p_limits text[]) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select cardinality(p_limits) <= 17 and coalesce(array_ndims(p_limits), 1) = 1
    and not exists (
      select from unnest(p_limits) k (key)
      where key is null or length(key) > 768 or key !~ '^(queue|kind|tenant|key|order|pass):[A-Za-z0-9*][A-Za-z0-9._:/-]{0,127}(#[0-9]{1,2})?(=.|$)')
$$;
alter table stint.job add constraint job_limits_are_at_most_17_keys check (limits is null or stint.are_limits(limits));

-- The fields of a row for the options `limits` and `order` of stint.enqueue.
create function stint.checked_limits(p_kind text, p_options jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limits constant jsonb := coalesce(p_options -> 'limits', '[]');
  v_order  constant text := stint.checked_text(p_kind, p_options, 'order', 768);
  v_keys   text[];
begin
  if not p_options ? 'limits' and v_order is null then
    return '{}';
  end if;
  if jsonb_typeof(v_limits) = 'array' then
    v_keys := array(select case when jsonb_typeof(k.value) = 'string' then k.value #>> '{}' end from jsonb_array_elements(v_limits) k);
  end if;
  if v_keys is null or cardinality(v_keys) > 16 or not stint.are_limits(v_keys) or exists (select from unnest(v_keys) k where stint.is_ordered(k)) then
    perform stint.refuse(p_kind, 'limits must be an array of at most 16 keys of limits, such as "key:account=42"', v_limits);
  end if;
  if v_order is not null and (not stint.are_limits(array[v_order]) or v_order !~ '^(order|pass):[^=]*=.') then
    perform stint.refuse(p_kind, 'order must be an ordered key, such as "order:charge=42" or "pass:charge=42"', p_options -> 'order');
  end if;
  return jsonb_strip_nulls(jsonb_build_object('order', v_order))
    || jsonb_build_object('limits', case when v_order is null then '[]' else jsonb_build_array(v_order) end || v_limits);
end
$$;

-- Locks keys until the transaction ends, and returns those it could lock. The places of a key change hands only under its lock. Keys share 1,024 advisory
-- locks, so that a batch of any size needs no more of the server's lock table. Locks are taken in one order, which prevents deadlocks; a lock out of that
-- order, needed by a second statement of the transaction, is only tried.
create function stint.lock_keys(p_keys text[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_base   constant bigint := 'stint.limit'::regclass::oid::bigint << 10;
  v_top    integer := coalesce(nullif(current_setting('stint_transaction.limits', true), '')::integer, -1);
  v_bucket integer;
  v_locked integer[] := '{}';
begin
  for v_bucket in select distinct hashtext(k) & 1023 from unnest(p_keys) k order by 1 loop
    if v_bucket > v_top then
      perform pg_advisory_xact_lock(v_base | v_bucket);
      v_top := v_bucket;
      v_locked := v_locked || v_bucket;
    elsif pg_try_advisory_xact_lock(v_base | v_bucket) then
      v_locked := v_locked || v_bucket;
    end if;
  end loop;
  perform set_config('stint_transaction.limits', v_top::text, true);
  return array(select k from unnest(p_keys) k where (hashtext(k) & 1023) = any (v_locked));
end
$$;

-- Whether no place of the key is free. Counted up to the limit, because a key may have held more before its limit was lowered.
create function stint.is_full(p_key text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_max integer := stint.max_of(p_key);
begin
  return v_max is not null
    and v_max <= (select count(*) from (select from stint.limit_place p where p.key = p_key and p.holds limit v_max) held);
end
$$;

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

-- ---- Ordered keys ----------------------------------------------------------------------------------

-- At the commit of a transaction that enqueued jobs with an ordered key: the first of each key gets its turn, if no other job has it. Not earlier: a
-- transaction that is left open must not hold up the settling of jobs. Where transactions may be prepared, upkeep does it, because a prepared transaction
-- keeps its locks and cannot send a NOTIFY.
create function stint.admit_ordered() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys text[];
begin
  with mine as (
    update stint.limit_place p set xid = null where p.xid = pg_current_xact_id() returning p.key
  )
  select array_agg(distinct key) into v_keys from mine;
  if v_keys is null then
    return null;
  elsif current_setting('max_prepared_transactions') <> '0' then
    insert into stint.limit_missed (key) select unnest(v_keys);
  else
    perform stint.wake(stint.let_in(v_keys));
  end if;
  return null;
end
$$;

create constraint trigger admit_ordered after insert on stint.limit_place
deferrable initially deferred
for each row when (new.xid is not null) execute function stint.admit_ordered();

-- The dead job at the head of an ordered key gives up its turn, and the next one runs. Returns its id; null: no dead job blocks the key.
create function stint.pass_order(p_key text, p_reason text, p_actor text default null, p_id uuid default null) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job uuid;
begin
  perform stint.lock_keys(array[p_key]);
  delete from stint.limit_place p
  where p.key = p_key and p.holds and p.ordered = 'block' and not exists (select from stint.job j where j.id = p.job_id)
  returning p.job_id into v_job;
  if v_job is not null then
    insert into stint.audit (id, actor, action, reason, job_id)
    values (coalesce(p_id, stint.new_id()), coalesce(p_actor, 'sql:' || session_user), 'pass-order', p_reason, v_job)
    on conflict (id) do nothing;
    perform stint.wake(stint.let_in(array[p_key]));
  end if;
  return v_job;
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

-- ---- Live changes ----------------------------------------------------------------------------------

-- Every change of a limit tells the workers of it, and lets in the jobs that now have a place. A new limit counts the jobs that run already.
create function stint.limit_changed(p_names text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.limit_place (job_id, key, holds, priority, run_at)
  select j.id, k.key, true, j.priority, j.run_at
  from stint.job j
  cross join lateral unnest(stint.keys_of(j.limits, j.kind, j.queue, j.tenant)) as k (key)
  where j.state = 'running' and stint.rule_of(k.key) = any (select stint.rule_of(n) from unnest(p_names) n)
    and not stint.is_ordered(k.key)
  on conflict (job_id, key) do nothing;
  update stint.job j set has_follow_ups = true
  where j.state = 'running' and j.has_follow_ups is null and exists (select from stint.limit_place p where p.job_id = j.id);

  insert into stint.limit_missed (key)
  select distinct p.key from stint.limit_place p
  where not p.holds and (p.key = any (p_names) or stint.rule_of(p.key) = any (p_names));
  perform stint.wake(array['limits']);
end
$$;

-- Change a limit live: {"max": 5}; null returns it to the value that code declared, or removes a limit that no code declared. `p_id` is the id of the audit
-- entry: a repeat with the same id changes nothing. Returns the row; null: there is none now.
create function stint.set_limit(p_name text, p_max integer, p_reason text, p_actor text default null, p_id uuid default null) returns stint.limit
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before stint.limit;
  v_after  stint.limit;
  v_actor  constant text := coalesce(p_actor, 'sql:' || session_user);
begin
  if p_name is null or p_name !~ '^(queue|kind|tenant|key):[A-Za-z0-9*][A-Za-z0-9._:/-]{0,127}(#[0-9]{1,2})?(=.|$)' or length(p_name) > 768 then
    raise exception 'stint: limit % is not a name', coalesce(quote_literal(left(p_name, 200)), 'null')
      using errcode = '22023', hint = 'Names are: queue:NAME, kind:NAME, tenant:KIND, tenant:*, key:NAME, and one key of them as key:NAME=VALUE. Nothing was changed.';
  elsif p_max is not null and p_max not between 1 and 1000000 then
    raise exception 'stint: limit "%": max must be an integer from 1 to 1000000 (got %)', p_name, p_max
      using errcode = '22023', hint = 'To stop the jobs of a queue or a kind, pause it. Nothing was changed.';
  elsif p_reason is null or length(p_reason) not between 1 and 512 then
    raise exception 'stint: limit "%": a reason of 1 to 512 characters is required', p_name using errcode = '22023', hint = 'Nothing was changed.';
  end if;
  perform pg_advisory_xact_lock(hashtextextended('stint limits', 'stint.limit'::regclass::oid::bigint));
  select l.* into v_before from stint.limit l where l.name = p_name;
  if exists (select from stint.audit a where a.id = p_id) then
    return v_before;
  end if;
  if p_max is null and v_before.declared_max is null then
    delete from stint.limit l where l.name = p_name;
  else
    insert into stint.limit as l (name, max, updated_by) values (p_name, coalesce(p_max, v_before.declared_max), v_actor)
    on conflict (name) do update set max = excluded.max, updated_at = clock_timestamp(), updated_by = excluded.updated_by
    returning l.* into v_after;
  end if;
  if v_before.max is distinct from v_after.max then
    insert into stint.audit (id, actor, action, reason, limit_name, change)
    values (coalesce(p_id, stint.new_id()), v_actor, 'set-limit', p_reason, p_name,
      jsonb_build_object('max', jsonb_build_object('from', v_before.max, 'to', v_after.max)));
    perform stint.limit_changed(array[p_name]);
  end if;
  return v_after;
end
$$;

-- Write what code declares: {"kind:charge": 5}. A declaration that differs from the last one replaces the value in force, also after a live change.
create function stint.declare_limits(p_limits jsonb, p_actor text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_changed text[];
begin
  -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
  if not exists (
    select from jsonb_each_text(p_limits) g left join stint.limit l on l.name = g.key
    where l.declared_max is distinct from g.value::integer)
  then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('stint limits', 'stint.limit'::regclass::oid::bigint));
  with given as (
    select g.key as name, g.value::integer as max, l.max as before
    from jsonb_each_text(p_limits) g left join stint.limit l on l.name = g.key
    where l.declared_max is distinct from g.value::integer
  ), declared as (
    insert into stint.limit as l (name, max, declared_max, updated_by)
    select g.name, g.max, g.max, p_actor from given g
    on conflict (name) do update
      set max = excluded.max, declared_max = excluded.declared_max, updated_at = clock_timestamp(), updated_by = excluded.updated_by
  ), noted as (
    insert into stint.audit (id, actor, action, limit_name, change)
    select stint.new_id(), p_actor, 'declare-limit', g.name, jsonb_build_object('max', jsonb_build_object('from', g.before, 'to', g.max)) from given g
  )
  select array_agg(name) into v_changed from given;
  perform stint.limit_changed(v_changed);
end
$$;

revoke all on all functions in schema stint from public;
