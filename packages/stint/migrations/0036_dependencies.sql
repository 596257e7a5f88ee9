-- Dependencies: outside systems that jobs of several kinds call, each with its rate, its quota and its concurrency.
-- oldest code: 1

create table stint.dependency (
  name       text collate "C" primary key,
  -- In force: {"concurrency": {"max", "min", "recoverMs"}, "rate": {"limit", "perMs", "burst"}, "quota": {"limit", "per", "zone"}}. A part that is
  -- missing does not limit.
  settings   jsonb not null,
  declared   jsonb,                                -- the settings that code declared last; null: none did
  -- The bucket, in units that are whole numbers: a token is `perMs` * 1000 units, and each microsecond adds `limit` units.
  credit     numeric not null default 0,
  credit_at  timestamptz not null default clock_timestamp(),
  quota_used bigint not null default 0,            -- in the window that began at quota_from
  quota_from timestamptz not null default '-infinity',
  slow_until timestamptz,                          -- the system asked for a pause: no job starts before
  slowed_at  timestamptz,                          -- when the concurrency was halved last
  raised_at  timestamptz,                          -- when it was raised by one last
  effective  integer,                              -- the concurrency now; null: not limited. The max of the limit `dependency:NAME`
  backlog_at timestamptz,                          -- when ready jobs were last parked for it by the hundred: there may be more of them
  next_at    timestamptz,                          -- when tend_dependencies has something to do; null: nothing
  updated_at timestamptz not null default clock_timestamp(),
  updated_by text not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Which kinds call which dependencies, as the workers that serve them declare it.
create table stint.kind_dependency (
  kind       text collate "C" not null,
  dependency text collate "C" not null,
  primary key (kind, dependency)
);

-- Jobs that wait for tokens: parked, in their old order. A job that was let in stays here until it has its tokens, and keeps its place in that order.
create table stint.dependency_wait (
  job_id     uuid primary key,
  dependency text collate "C" not null,
  cost       bigint not null,                      -- of jobs that no worker has claimed yet, an estimate
  priority   smallint not null,
  run_at     timestamptz not null,
  seq        bigint generated always as identity,
  let_in_at  timestamptz                           -- null: it is parked
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, fillfactor = 80);
create index dependency_wait_parked on stint.dependency_wait (dependency, priority, run_at, seq) where let_in_at is null;
create index dependency_wait_let_in on stint.dependency_wait (dependency, let_in_at) where let_in_at is not null;

-- ---- Settings --------------------------------------------------------------------------------------

-- Not 10.0: jsonb keeps its decimal point, and a cast of that text to an integer fails.
create function stint.is_whole(p_value jsonb, p_min bigint, p_max bigint) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select case when jsonb_typeof(p_value) = 'number' then scale(p_value::numeric) = 0 and p_value::numeric between p_min and p_max else false end
$$;

create function stint.refuse_dependency(p_name text, p_rule text, p_value jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: dependency %: % (got %)', coalesce(quote_literal(left(p_name, 200)), 'null'), p_rule, coalesce(left(p_value::text, 200), 'null')
    using errcode = '22023', hint = 'Nothing was changed.';
end
$$;

-- Raises an error unless these are settings that can work.
create function stint.check_dependency(p_name text, p_settings jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_part  text;
  v_value jsonb;
  v_known constant jsonb := '{"concurrency": ["max", "min", "recoverMs"], "rate": ["limit", "perMs", "burst"], "quota": ["limit", "per", "zone"]}';
begin
  if p_name is null or p_name !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,115}$' then
    perform stint.refuse_dependency(p_name, 'the name must be 1 to 116 characters from A-Z, a-z, 0-9 and . _ : / -, beginning with a letter or a digit', to_jsonb(p_name));
  end if;
  if jsonb_typeof(p_settings) is distinct from 'object' then
    perform stint.refuse_dependency(p_name, 'settings must be an object', p_settings);
  end if;
  for v_part, v_value in select key, value from jsonb_each(p_settings) loop
    if not v_known ? v_part then
      perform stint.refuse_dependency(p_name, 'settings are concurrency, rate and quota', to_jsonb(v_part));
    end if;
    if jsonb_typeof(v_value) is distinct from 'object' or exists (select from jsonb_object_keys(v_value) k where not (v_known -> v_part) ? k)
      or (select count(*) from jsonb_object_keys(v_value)) <> 3
    then
      perform stint.refuse_dependency(p_name, format('%s must be an object of exactly %s', v_part, v_known -> v_part), v_value);
    end if;
  end loop;
  v_value := p_settings -> 'concurrency';
  if v_value is not null and not (
    stint.is_whole(v_value -> 'max', 1, 1000000) and stint.is_whole(v_value -> 'min', 1, (v_value ->> 'max')::numeric::bigint)
    and stint.is_whole(v_value -> 'recoverMs', 1, 86400000))
  then
    perform stint.refuse_dependency(p_name, 'concurrency needs max from 1 to 1000000, min from 1 to max, and recoverMs from 1 to 86400000', v_value);
  end if;
  v_value := p_settings -> 'rate';
  if v_value is not null and not (
    stint.is_whole(v_value -> 'limit', 1, 1000000000) and stint.is_whole(v_value -> 'perMs', 1, 31622400000) and stint.is_whole(v_value -> 'burst', 1, 1000000000))
  then
    perform stint.refuse_dependency(p_name, 'rate needs limit and burst from 1 to 1000000000, and perMs from 1 to 31622400000', v_value);
  end if;
  v_value := p_settings -> 'quota';
  if v_value is not null and (
    not stint.is_whole(v_value -> 'limit', 1, 1000000000000000) or (v_value ->> 'per') is null
    or v_value ->> 'per' not in ('minute', 'hour', 'day', 'week', 'month')
    or not exists (select from pg_timezone_names z where z.name = v_value ->> 'zone'))
  then
    perform stint.refuse_dependency(p_name, 'quota needs limit from 1 to 10^15, per (minute, hour, day, week or month) and the name of a time zone', v_value);
  end if;
end
$$;

-- Puts settings in force. Tokens that are there stay, as far as the new burst allows; a bucket that is new starts full. A change ends a slow-down, and
-- the concurrency starts from its max.
create function stint.apply_dependency(p_name text, p_settings jsonb, p_actor text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_at     constant timestamptz := clock_timestamp();
  v_rate   constant jsonb := p_settings -> 'rate';
  v_unit   constant numeric := (v_rate ->> 'perMs')::numeric * 1000;
  v_before stint.dependency;
  v_credit numeric := 0;
  v_after  stint.dependency;
begin
  select d.* into v_before from stint.dependency d where d.name = p_name;
  if v_rate is not null then
    v_credit := (v_rate ->> 'burst')::numeric * v_unit;
    if v_before.settings is not null then
      -- Where there was no rate before, jobs may have started a moment ago: the bucket starts empty.
      v_credit := least(v_credit, trunc(coalesce(stint.credit_of(v_before, v_at), 0) * v_unit / coalesce((v_before.settings #>> '{rate,perMs}')::numeric * 1000, v_unit)));
    end if;
  end if;
  insert into stint.dependency as d (name, settings, credit, credit_at, effective, next_at, updated_by)
  values (p_name, p_settings, v_credit, v_at, (p_settings #>> '{concurrency,max}')::integer, v_at, p_actor)
  on conflict (name) do update
    set settings = excluded.settings, credit = excluded.credit, credit_at = greatest(d.credit_at, excluded.credit_at), slow_until = null, slowed_at = null,
        effective = excluded.effective, next_at = excluded.next_at, updated_at = clock_timestamp(), updated_by = excluded.updated_by;
  -- What the old window has spent counts in the new one, whatever its period and zone.
  select d.* into v_after from stint.dependency d where d.name = p_name;
  update stint.dependency d
  set quota_used = coalesce(stint.quota_spent(v_before, v_at), 0), quota_from = coalesce(stint.quota_start(v_after, v_at), '-infinity')
  where d.name = p_name;
  -- Costs of waiting jobs may be estimates. A worker computes those above the new settings again, and parks the job if it really costs more.
  update stint.dependency_wait w
  set cost = least(w.cost, (v_rate ->> 'burst')::bigint, (p_settings #>> '{quota,limit}')::bigint)
  where w.dependency = p_name and w.let_in_at is null
    and w.cost > least((v_rate ->> 'burst')::bigint, (p_settings #>> '{quota,limit}')::bigint);
  perform stint.apply_concurrency(p_name);
end
$$;

-- Makes the effective concurrency the max of the limit `dependency:NAME`, which jobs of its kinds are under.
create function stint.apply_concurrency(p_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limit  constant text := 'dependency:' || p_name;
  v_max    integer;
  v_before integer;
begin
  select d.effective into v_max from stint.dependency d where d.name = p_name;
  select l.max into v_before from stint.limit l where l.name = v_limit;
  if v_max is not distinct from v_before then
    return;
  end if;
  if v_max is null then
    delete from stint.limit l where l.name = v_limit;
  else
    if v_before is null then
      -- Running jobs of its kinds count from now on. Those that SQL enqueued do not carry the key yet.
      update stint.job j set limits = j.limits || v_limit
      where j.state = 'running' and j.kind in (select k.kind from stint.kind_dependency k where k.dependency = p_name)
        and v_limit <> all (coalesce(j.limits, '{}')) and cardinality(coalesce(j.limits, '{}')) < 17;
    end if;
    insert into stint.limit as l (name, max, updated_by) values (v_limit, v_max, 'stint')
    on conflict (name) do update set max = excluded.max, updated_at = clock_timestamp();
  end if;
  perform stint.limit_changed(array[v_limit]);
end
$$;

-- Change settings live: {"rate": {…}} replaces the rate, {"rate": null} removes it, null returns to what code declared. `p_id` is the id of the audit
-- entry: a repeat with the same id changes nothing. A change that changes nothing ends a slow-down all the same.
create function stint.set_dependency(p_name text, p_change jsonb, p_reason text, p_actor text default null, p_id uuid default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor    constant text := coalesce(p_actor, 'sql:' || session_user);
  v_before   stint.dependency;
  v_settings jsonb;
begin
  if p_change is not null and jsonb_typeof(p_change) <> 'object' then
    perform stint.refuse_dependency(p_name, 'the change must be an object or null', p_change);
  elsif p_reason is null or length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_dependency(p_name, 'a reason of 1 to 512 characters without control characters is required', to_jsonb(p_reason));
  end if;
  perform pg_advisory_xact_lock(hashtextextended('stint dependencies', 'stint.dependency'::regclass::oid::bigint));
  select d.* into v_before from stint.dependency d where d.name = p_name for no key update;
  if exists (select from stint.audit a where a.id = p_id) then
    return;
  end if;
  v_settings := case when p_change is null then coalesce(v_before.declared, '{}') else jsonb_strip_nulls(coalesce(v_before.settings, '{}') || p_change) end;
  perform stint.check_dependency(p_name, v_settings);
  perform stint.apply_dependency(p_name, v_settings, v_actor);
  insert into stint.audit (id, actor, action, reason, subject, change)
  values (coalesce(p_id, stint.new_id()), v_actor, 'set-dependency', p_reason, 'dependency:' || p_name,
    jsonb_build_object('settings', jsonb_build_object('from', v_before.settings, 'to', v_settings)));
  perform stint.wake(array['dependencies']);
end
$$;

-- Makes the jobs of these kinds that wait for a dependency ready; null: of all kinds.
create function stint.free_waiting(p_dependency text, p_kinds text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  with freed as (
    update stint.job j
    set state = 'ready', park_reason = null, run_at = greatest(j.run_at, clock_timestamp())
    from stint.dependency_wait w
    where w.dependency = p_dependency and w.job_id = j.id and w.let_in_at is null and (p_kinds is null or j.kind = any (p_kinds))
      and j.state = 'parked' and j.park_reason = 'limit'
    returning j.id, j.queue, j.kind, j.priority
  ), forgotten as (
    delete from stint.dependency_wait w using freed where w.job_id = freed.id
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select f.queue, f.kind, f.priority, - count(*) from freed f group by f.queue, f.kind, f.priority;
end
$$;

-- Kinds of `p_uses` that use a dependency no more: their jobs that wait for it become ready.
create function stint.forget_uses(p_uses jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name  text;
  v_kinds text[];
begin
  -- In the order in which tokens change hands: first the dependencies, then the jobs.
  perform from stint.dependency d
  where d.name in (select k.dependency from stint.kind_dependency k where p_uses ? k.kind and not (p_uses -> k.kind) ? k.dependency)
  order by d.name for no key update;
  for v_name, v_kinds in
    with gone as (
      delete from stint.kind_dependency k where p_uses ? k.kind and not (p_uses -> k.kind) ? k.dependency returning k.kind, k.dependency
    )
    select g.dependency, array_agg(g.kind) from gone g group by g.dependency order by g.dependency
  loop
    perform stint.free_waiting(v_name, v_kinds);
  end loop;
  perform stint.wake(array['due'], null);
end
$$;

-- A person deleted a dependency: no job waits for it, or for a place of its concurrency, any more.
create function stint.dependency_deleted() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform stint.free_waiting(old.name, null);
  delete from stint.dependency_wait w where w.dependency = old.name;
  delete from stint.kind_dependency k where k.dependency = old.name;
  perform stint.apply_concurrency(old.name);
  perform stint.wake(array['due'], null);
  return null;
end
$$;

create trigger dependency_deleted after delete on stint.dependency for each row execute function stint.dependency_deleted();

-- Write what code declares: the settings of dependencies, and the dependencies of each kind. A declaration that differs from the last one replaces the
-- settings in force, also after a live change. Returns the names of all dependencies, for the caller to check those of its kinds.
create function stint.declare_dependencies(p_declared jsonb, p_uses jsonb, p_actor text) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name     text;
  v_settings jsonb;
  v_before   stint.dependency;
begin
  -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
  if exists (
    select from jsonb_each(p_declared) g left join stint.dependency d on d.name = g.key where d.declared is distinct from g.value)
  then
    perform pg_advisory_xact_lock(hashtextextended('stint dependencies', 'stint.dependency'::regclass::oid::bigint));
    for v_name, v_settings in select g.key, g.value from jsonb_each(p_declared) g order by g.key loop
      select d.* into v_before from stint.dependency d where d.name = v_name for no key update;
      continue when v_before.declared is not distinct from v_settings;
      perform stint.check_dependency(v_name, v_settings);
      perform stint.apply_dependency(v_name, v_settings, p_actor);
      update stint.dependency d set declared = v_settings where d.name = v_name;
      insert into stint.audit (id, actor, action, subject, change)
      values (stint.new_id(), p_actor, 'declare-dependency', 'dependency:' || v_name,
        jsonb_build_object('settings', jsonb_build_object('from', v_before.settings, 'to', v_settings)));
    end loop;
  end if;

  if exists (select from stint.kind_dependency k where p_uses ? k.kind and not (p_uses -> k.kind) ? k.dependency) then
    perform stint.forget_uses(p_uses);
  end if;
  insert into stint.kind_dependency (kind, dependency)
  select u.key, n.name from jsonb_each(p_uses) u cross join lateral jsonb_array_elements_text(u.value) as n (name)
  where exists (select from stint.dependency d where d.name = n.name)
  order by 1, 2
  on conflict do nothing;
  return array(select d.name from stint.dependency d order by d.name);
end
$$;

select stint.revoke_new_functions();
