-- Live changes of limits.
-- oldest code: 1

-- Gives running jobs places of these rules, also beyond their max: they run. With `p_ids` and `p_leases` only these, as far as no other session has locked
-- them: a worker began them before it knew of a limit. A job that ends in this moment is locked by the statement that ends it. Without ids it is waited for:
-- it must not leave a place behind.
create function stint.count_running(p_rules text[], p_ids uuid[] default null, p_leases uuid[] default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_ids is not null then
    p_ids := array(
      select j.id from stint.job j join unnest(p_ids, p_leases) as m (id, lease_id) on m.id = j.id and m.lease_id = j.lease_id
      where j.state = 'running' for no key update of j skip locked);
  end if;
  with running as (
    update stint.job j set has_follow_ups = true
    where j.state = 'running' and (p_ids is null or j.id = any (p_ids)) and exists (
      select from unnest(stint.keys_of(j.limits, j.kind, j.queue, j.tenant)) as k (key) where stint.rule_of(k.key) = any (p_rules) and not stint.is_ordered(k.key)
        and not exists (select from stint.limit_place p where p.job_id = j.id and p.key = k.key))
    returning j.id, j.limits, j.kind, j.queue, j.tenant, j.priority, j.run_at
  )
  insert into stint.limit_place (job_id, key, holds, priority, run_at)
  select j.id, k.key, true, j.priority, j.run_at
  from running j
  cross join lateral unnest(stint.keys_of(j.limits, j.kind, j.queue, j.tenant)) as k (key)
  where stint.rule_of(k.key) = any (p_rules) and not stint.is_ordered(k.key)
  on conflict (job_id, key) do nothing;
end
$$;

-- From now on, these rules count each running job by its own place, and no share covers more of them. Settles wait for the same rows in another order, and so
-- does a statement that takes places: this one gives way after 100 ms, long before the server would see a deadlock and might cancel the other one.
create function stint.count_each(p_rules text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
begin
  for v_try in 1 .. 50 loop
    begin
      update stint.limit_share s set closed = true where s.name = any (p_rules) and not s.closed;
      perform stint.count_running(p_rules);
      return;
    exception
      when lock_not_available then null;           -- the rows are unlocked here
    end;
  end loop;
  raise exception 'stint: another transaction has locked jobs under limit "%"', p_rules[1]
    using errcode = '55P03', hint = 'End that transaction, then try again. Nothing was changed.';
end
$$;

-- Every change of a limit notifies the workers, and lets in the jobs that now have a place. A new limit counts the jobs that run already.
create function stint.limit_changed(p_names text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rules constant text[] := array(select distinct stint.rule_of(n) from unnest(p_names) n);
begin
  -- The snapshot of a whole transaction does not show the jobs that have started since: they would not count.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'stint: a limit cannot be changed in a transaction with the isolation level %', current_setting('transaction_isolation')
      using errcode = '22023', hint = 'Use a transaction with the level read committed. Nothing was changed.';
  end if;
  perform stint.count_each(v_rules);
  perform stint.close_shares(v_rules);

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

-- Write what the code of `p_kinds` declares: {"kind:charge": 5}. A declaration that differs from the last one replaces the value in force, also after a live
-- change. A limit of one of these kinds alone that is declared no more is removed. Limits of queues and named keys stay: other kinds may declare them.
create function stint.declare_limits(p_limits jsonb, p_actor text, p_kinds text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_changed text[];
begin
  -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
  if not exists (select from stint.declarations_changed(p_limits, p_kinds)) then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('stint limits', 'stint.limit'::regclass::oid::bigint));
  with given as (
    select c.name, c.max, l.max as before from stint.declarations_changed(p_limits, p_kinds) c left join stint.limit l on l.name = c.name
  ), removed as (
    delete from stint.limit l using given g where l.name = g.name and g.max is null
  ), declared as (
    insert into stint.limit as l (name, max, declared_max, updated_by)
    select g.name, g.max, g.max, p_actor from given g where g.max is not null
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

-- The limits whose declaration differs from the last one. Null: it is declared no more.
create function stint.declarations_changed(p_limits jsonb, p_kinds text[]) returns table (name text, max integer)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select g.key, g.value::integer
  from jsonb_each_text(p_limits) g left join stint.limit l on l.name = g.key
  where l.declared_max is distinct from g.value::integer
  union all
  select l.name, null
  from stint.limit l
  where l.declared_max is not null and l.name ~ '^(kind|tenant):' and not p_limits ? l.name
    and split_part(regexp_replace(l.name, '^(kind|tenant):', ''), '#', 1) = any (p_kinds)
$$;

-- A job that does not run has another priority, or other keys (`limits` and `order` of `p_change`). It takes its place among those that wait, or leaves a
-- key that it is no longer under. Returns its state. Waiting jobs are let in by upkeep: this transaction may stay open, and must lock no key.
create function stint.change_limits(p_job stint.job, p_state stint.job_state, p_priority smallint, p_change jsonb) returns stint.job_state
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old   constant text[] := coalesce(p_job.limits, '{}');
  v_new   constant text[] := array(select jsonb_array_elements_text(p_change -> 'limits'));
  v_order constant text := p_change ->> 'order';
  v_state stint.job_state := p_state;
  v_freed text[];
  v_left  boolean;
begin
  update stint.limit_place p set priority = p_priority where p.job_id = p_job.id and not p.holds and p.ordered is null and p.priority <> p_priority;
  update stint.dependency_wait w set priority = p_priority where w.job_id = p_job.id and w.priority <> p_priority;
  if not p_change ? 'limits' or v_new = v_old then
    return p_state;
  end if;
  with gone as (
    delete from stint.limit_place p where p.job_id = p_job.id and p.key = any (v_old) and p.key <> all (v_new) returning p.key, p.holds
  )
  select array_agg(key), bool_or(not holds) into v_freed, v_left from gone;
  -- A place of any of its keys may have been left free for a job that waits (let_in).
  if p_job.park_reason = 'limit' then
    v_freed := v_freed || v_old;
  end if;
  if v_freed is not null then
    insert into stint.limit_missed (key) select distinct k from unnest(v_freed) k;
    perform stint.wake(array['limits']);
  end if;

  if p_state in ('ready', 'scheduled', 'retrying') or p_job.park_reason = 'limit' then
    if v_order is not null and v_order <> all (v_old) then
      delete from stint.limit_place p where p.job_id = p_job.id and not p.holds;
      insert into stint.limit_place (job_id, key, holds, run_at, xid) values (p_job.id, v_order, false, '-infinity', pg_current_xact_id());
      v_state := 'parked';
    elsif v_left then
      v_state := case when p_job.run_at > clock_timestamp() then 'scheduled' else 'ready' end;
    end if;
  end if;
  update stint.job j
  set limits = v_new, state = v_state, park_reason = case when v_state <> 'parked' then null when v_state <> p_state then 'limit' else j.park_reason end,
      -- Not before now: claims do not look behind the jobs that they have taken.
      run_at = case when v_state = 'ready' and p_state = 'parked' then clock_timestamp() else j.run_at end,
      has_follow_ups = case when v_state = 'parked' and v_state <> p_state then true else j.has_follow_ups end
  where j.id = p_job.id;
  return v_state;
end
$$;

select stint.revoke_new_functions();
