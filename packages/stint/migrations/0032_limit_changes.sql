-- Live changes of limits.
-- oldest code: 1

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

-- PostgreSQL grants execute on new functions to everyone by default.
revoke all on all functions in schema stint from public;
