-- Limits: how many jobs of a queue, a kind, a tenant or a key may run at once, and ordered keys. Tables and keys.
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
    name ~ '^(queue|kind|tenant|key|dependency):[A-Za-z0-9*][A-Za-z0-9._:/-]{0,127}(#[0-9]{1,2})?(=|$)' and length(name) <= 768)
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
  beside   text[],                                 -- of a waiting job: the other keys that it needs, as far as they were known then; null: none
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
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return case
    when stint.is_ordered(p_key) then 1
    else coalesce(
      (select l.max from stint.limit l where l.name = p_key),
      (select l.max from stint.limit l where l.name = stint.rule_of(p_key)))
  end;
end
$$;

-- Every key with a limit in force that a job is under, an ordered key first. In plpgsql, which keeps its plan: it is called for each job that is let in.
create function stint.keys_of(p_limits text[], p_kind text, p_queue text, p_tenant text) returns text[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys  constant text[] :=
    p_limits || array['queue:' || p_queue, 'kind:' || p_kind, 'tenant:' || p_kind || '=' || p_tenant, 'tenant:*=' || p_tenant];
  v_names constant text[] := array(
    select l.name from stint.limit l where l.name = any (array(select k from unnest(v_keys) k union select stint.rule_of(k) from unnest(v_keys) k)));
begin
  return array(
    select k.key
    from unnest(v_keys) as k (key)
    where stint.is_ordered(k.key) or k.key = any (v_names) or stint.rule_of(k.key) = any (v_names)
    group by k.key
    order by stint.is_ordered(k.key) desc, k.key collate "C");
end
$$;

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
  -- No share is given while this statement gives places (take_share).
  perform pg_advisory_xact_lock_shared(hashtextextended('stint limit shares', 'stint.limit'::regclass::oid::bigint));
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

-- How many places of the key are free. Null: no limit is in force. Counted up to the limit, because a key may have held more before its limit was lowered.
create function stint.free_places_of(p_key text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_max constant integer := stint.max_of(p_key);
begin
  return v_max - (select count(*) from (select from stint.limit_place p where p.key = p_key and p.holds limit v_max) held) - stint.shared(p_key);
end
$$;

-- Whether no place of the key is free.
create function stint.is_full(p_key text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  return coalesce(stint.free_places_of(p_key) <= 0, false);
end
$$;

select stint.revoke_new_functions();
