-- Admission of tenants: how many jobs of one tenant a queue takes, and what happens to its enqueues beyond that. And `stint.admission`, for callers that
-- ask first.
-- oldest code: 1

-- Checks the settings for each tenant, and returns them as they are stored.
create function stint.checked_tenant_admission(p_queue text, p_value jsonb, p_strict boolean) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_policy constant text := coalesce(p_value ->> 'policy', 'reject');
  v_name   text;
  v_ms     numeric;
begin
  if p_value is null then
    return null;
  end if;
  if jsonb_typeof(p_value) <> 'object' or p_value - array['maxDepth', 'maxAge', 'policy', 'deferBy', 'shed'] <> '{}' then
    perform stint.refuse_setting(p_queue, 'admission.tenant must be an object of maxDepth, maxAge, policy, deferBy and shed', p_value::text);
  end if;
  if not p_value ?| array['maxDepth', 'maxAge'] then
    perform stint.refuse_setting(p_queue, 'admission.tenant needs maxDepth or maxAge', p_value::text);
  end if;
  if p_value ? 'maxDepth' and not stint.is_count(p_value -> 'maxDepth') then
    perform stint.refuse_setting(p_queue, 'admission.tenant.maxDepth must be an integer from 1 to 1000000000', (p_value -> 'maxDepth')::text);
  end if;
  foreach v_name in array array['maxAge', 'deferBy'] loop
    v_ms := stint.to_ms(p_value -> v_name);
    if p_value ? v_name and (v_ms is null or round(v_ms) not between 1 and 3153600000000) then
      perform stint.refuse_setting(p_queue, format('admission.tenant.%s must be a length of time such as "30s", from 1 ms to 36500 days', v_name), (p_value -> v_name)::text);
    end if;
  end loop;
  if v_policy not in ('reject', 'defer', 'shed', 'warn') or p_value ? 'policy' and jsonb_typeof(p_value -> 'policy') <> 'string' then
    perform stint.refuse_setting(p_queue, 'admission.tenant.policy must be "reject", "defer", "shed" or "warn"', (p_value -> 'policy')::text);
  end if;
  if p_strict and v_policy not in ('reject', 'shed') then
    perform stint.refuse_setting(p_queue, 'admission.strict needs the policy "reject" or "shed" in tenant, too', p_value::text);
  end if;
  if p_value ? 'deferBy' and v_policy <> 'defer' then
    perform stint.refuse_setting(p_queue, 'admission.tenant.deferBy needs the policy "defer"', p_value::text);
  end if;
  if p_value ? 'shed' and (v_policy <> 'shed' or p_value -> 'shed' not in ('"lowest-priority"', '"oldest"')) then
    perform stint.refuse_setting(p_queue, 'admission.tenant.shed must be "lowest-priority" or "oldest", beside the policy "shed"', (p_value -> 'shed')::text);
  end if;
  if v_policy = 'shed' and not p_value ? 'maxDepth' then
    perform stint.refuse_setting(p_queue, 'admission.tenant needs maxDepth for the policy "shed"', p_value::text);
  end if;
  return jsonb_strip_nulls(jsonb_build_object(
    'maxDepth', p_value -> 'maxDepth', 'maxAgeMs', round(stint.to_ms(p_value -> 'maxAge')), 'policy', v_policy,
    'deferByMs', round(stint.to_ms(p_value -> 'deferBy')), 'shed', case when v_policy = 'shed' then coalesce(p_value ->> 'shed', 'lowest-priority') end));
end
$$;

-- Raises an error if maxDelay of a live change names a dependency that does not exist.
create function stint.check_delays(p_queue text, p_admission jsonb) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown text;
begin
  select m.name into v_unknown
  from jsonb_object_keys(coalesce(p_admission -> 'maxDelayMs', '{}')) as m (name)
  where not exists (select from stint.dependency d where d.name = m.name)
  order by m.name limit 1;
  if v_unknown is not null then
    raise exception 'stint: queue "%": admission.maxDelay names "%", which is not declared', p_queue, v_unknown
      using errcode = '22023',
      hint = format('Dependencies are: %s. Nothing was changed.', coalesce((select string_agg(d.name, ', ' order by d.name) from stint.dependency d), 'none'));
  end if;
end
$$;

-- ---- The depth and the age of a tenant -------------------------------------------------------------

-- Deletes the rows of these jobs if they have ended. Looked at again once they are locked: a replay may have returned the job since, and waits for this
-- lock. A row that another session has locked stays.
create function stint.forget_admitted(p_queue text, p_tenant text, p_ids uuid[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gone uuid[];
begin
  v_gone := array(
    select a.job_id from stint.admitted a
    where a.queue = p_queue and a.tenant = p_tenant and a.job_id = any (p_ids) and not exists (select from stint.job j where j.id = a.job_id)
    for update skip locked);
  delete from stint.admitted a
  where a.queue = p_queue and a.tenant = p_tenant and a.job_id = any (v_gone) and not exists (select from stint.job j where j.id = a.job_id);
end
$$;

-- Jobs of a tenant in this queue that have not ended, exactly as of this statement. A number up to `p_enough` may count jobs that have ended.
create function stint.tenant_depth(p_queue text, p_tenant text, p_enough bigint) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_listed uuid[];
begin
  v_listed := array(select a.job_id from stint.admitted a where a.queue = p_queue and a.tenant = p_tenant);
  if cardinality(v_listed) <= coalesce(p_enough, cardinality(v_listed)) then
    return cardinality(v_listed);
  end if;
  perform stint.forget_admitted(p_queue, p_tenant, v_listed);
  return (select count(*) from stint.admitted a where a.queue = p_queue and a.tenant = p_tenant and exists (select from stint.job j where j.id = a.job_id));
end
$$;

-- How long the oldest ready job of a tenant has been waiting, in milliseconds. It looks at the tenant's jobs in the order of their ids, a hundred at a time,
-- until it finds some that have not ended.
create function stint.tenant_age(p_queue text, p_tenant text) returns double precision
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_after  uuid := '00000000-0000-0000-0000-000000000000';
  v_ids    uuid[];
  v_live   bigint := 0;
  v_oldest timestamptz;
begin
  loop
    v_ids := array(
      select a.job_id from stint.admitted a where a.queue = p_queue and a.tenant = p_tenant and a.job_id > v_after order by a.job_id limit 100);
    exit when v_ids = '{}';
    select count(*), min(j.run_at) filter (where j.state = 'ready') into v_live, v_oldest from stint.job j where j.id = any (v_ids);
    if v_live < cardinality(v_ids) then
      perform stint.forget_admitted(p_queue, p_tenant, v_ids);
    end if;
    exit when v_live > 0;
    v_after := v_ids[cardinality(v_ids)];
  end loop;
  return coalesce(greatest(0, extract(epoch from clock_timestamp() - v_oldest) * 1000), 0)::double precision;
end
$$;

-- The depth and the age of a tenant now. `p_settings` are those for tenants.
create function stint.look_at_tenant(p_queue text, p_tenant text, p_count bigint, p_settings jsonb) returns stint.admission_sample
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sample stint.admission_sample;
begin
  v_sample.queue := p_queue;
  v_sample.depth := stint.tenant_depth(p_queue, p_tenant, (p_settings ->> 'maxDepth')::bigint - p_count);
  -- The hint when to try again needs the age, too.
  v_sample.age_ms := case when p_settings ? 'maxAgeMs' or stint.exceeds_admission(v_sample, p_settings, p_count) then stint.tenant_age(p_queue, p_tenant) else 0 end;
  v_sample.delay_ms := 0;
  v_sample.sampled_at := clock_timestamp();
  return v_sample;
end
$$;

-- ---- Enqueues --------------------------------------------------------------------------------------

-- Decides about the jobs of tenants before they are written, and lists them. Raises queue_full; else returns by how much to delay the jobs of which tenants.
-- A job of `p_again` may have been enqueued before: it is listed only. `p_settings` are those of the queue.
create function stint.admit_tenants(p_queue text, p_tenants text[], p_ids uuid[], p_again boolean[], p_settings jsonb) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_set    constant jsonb := p_settings -> 'tenant';
  v_policy constant text := v_set ->> 'policy';
  v_tenant text;
  v_count  bigint;
  v_sample stint.admission_sample;
  v_delays jsonb := '{}';
begin
  for v_tenant, v_count in
    select t.tenant, count(*) from unnest(p_tenants, p_again) t (tenant, again)
    where t.tenant is not null and not t.again and v_policy <> 'shed'
    group by t.tenant order by t.tenant
  loop
    v_sample := stint.look_at_tenant(p_queue, v_tenant, v_count, v_set);
    continue when not stint.exceeds_admission(v_sample, v_set, v_count);
    if v_policy = 'reject' then
      v_sample.depth := stint.tenant_depth(p_queue, v_tenant, 0);  -- without jobs that have ended
      perform stint.queue_full(v_sample, v_tenant, stint.retry_after(v_sample, v_set, v_count));
    end if;
    insert into stint.enqueue_count (queue, kind, status, count)
    values (p_queue, '*', case v_policy when 'defer' then 'deferred-full' else 'over-limit' end, v_count);
    if v_policy = 'defer' then
      v_delays := v_delays || jsonb_build_object(v_tenant, coalesce((v_set ->> 'deferByMs')::bigint, stint.retry_after(v_sample, v_set, v_count)));
    end if;
  end loop;
  -- A row that is there already is locked, so that no other session deletes it as the row of an ended job.
  insert into stint.admitted (queue, tenant, job_id)
  select distinct p_queue, t.tenant, t.id from unnest(p_tenants, p_ids) t (tenant, id) where t.tenant is not null order by t.tenant, t.id
  on conflict (queue, tenant, job_id) do update set tenant = excluded.tenant;
  if p_settings -> 'strict' = 'true' or v_policy = 'shed' then
    insert into stint.admission_check (queue, tenant, written)
    select distinct p_queue, t.tenant, false from unnest(p_tenants) t (tenant) where t.tenant is not null
    on conflict do nothing;
  end if;
  return v_delays;
end
$$;

-- Cancels ready jobs of a tenant beyond its limit. Parts of flows stay.
create function stint.shed_tenant(p_queue text, p_tenant text, p_settings jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_max  constant bigint := (p_settings ->> 'maxDepth')::bigint;
  v_over constant bigint := stint.tenant_depth(p_queue, p_tenant, v_max) - v_max;
begin
  if v_over > 0 then
    perform stint.cancel_shed(
      array(
        select j.id
        from stint.admitted a join stint.job j on j.id = a.job_id
        where a.queue = p_queue and a.tenant = p_tenant and j.state = 'ready' and j.has_follow_ups is null
        order by case when p_settings ->> 'shed' = 'lowest-priority' then - j.priority else 0 end, j.run_at, j.id
        limit v_over
        for update of j skip locked),
      format('shed: queue "%s" was full for tenant "%s"', p_queue, left(p_tenant, 200)));
  end if;
end
$$;

-- Raises queue_full unless a tenant is within its limit, exactly as of this statement. One that sheds loses jobs first.
create function stint.require_tenant_room(p_queue text, p_tenant text, p_settings jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sample stint.admission_sample;
begin
  if p_settings ->> 'policy' = 'shed' then
    perform stint.shed_tenant(p_queue, p_tenant, p_settings);
  end if;
  v_sample := stint.look_at_tenant(p_queue, p_tenant, 0, p_settings - 'maxAgeMs');
  if v_sample.depth > (p_settings ->> 'maxDepth')::bigint then
    perform stint.queue_full(v_sample, p_tenant, stint.retry_after(v_sample, p_settings, 0));
  end if;
end
$$;

-- ---- Asking first ----------------------------------------------------------------------------------

-- What an enqueue of one job to a queue would meet now. `on_enqueue`: accept, reject, defer (by `defer_ms`), shed or warn. `admits`: it would not be
-- rejected. `behind`: of the dependencies in maxDelay, the one that delays most against its limit. The fields of the tenant are null without a tenant, or
-- without settings for tenants.
create function stint.admission(queue text, tenant text default null)
returns table (
  admits boolean, is_full boolean, on_enqueue text, defer_ms bigint, retry_after_ms integer,
  policy text, depth bigint, age_ms double precision, max_depth bigint, max_age_ms double precision,
  behind text, delay_ms double precision, max_delay_ms double precision,
  tenant_policy text, tenant_depth bigint, tenant_age_ms double precision, tenant_max_depth bigint, tenant_max_age_ms double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_set     constant jsonb := stint.admission_of(admission.queue);
  v_tenants constant jsonb := case when admission.tenant is not null then v_set -> 'tenant' end;
  v_sample  stint.admission_sample;
  v_tenant  stint.admission_sample;
  v_own     boolean := false;
  v_met     text[];
begin
  if v_set is null then
    v_sample := stint.look_at_queue(admission.queue, null);
  else
    v_sample := stint.admission_sample(admission.queue);
  end if;
  -- Jobs are shed by the exact depth, and for no other reason.
  if v_set -> 'strict' = 'true' or v_set ->> 'policy' = 'shed' then
    v_sample.depth := stint.live_depth(admission.queue);
  end if;
  is_full := stint.exceeds_admission(v_sample, case when v_set ->> 'policy' = 'shed' then v_set - array['maxAgeMs', 'maxDelayMs'] else v_set end, 1);
  policy := v_set ->> 'policy';
  depth := v_sample.depth;
  age_ms := v_sample.age_ms;
  max_depth := (v_set ->> 'maxDepth')::bigint;
  max_age_ms := (v_set ->> 'maxAgeMs')::double precision;
  behind := v_sample.behind;
  delay_ms := v_sample.delay_ms;
  max_delay_ms := (v_set -> 'maxDelayMs' ->> v_sample.behind)::double precision;
  retry_after_ms := case when is_full then stint.retry_after(v_sample, v_set, 1) else 0 end;
  v_met := case when is_full then array[policy] else '{}' end;
  defer_ms := case when is_full and policy = 'defer' then coalesce((v_set ->> 'deferByMs')::bigint, retry_after_ms) else 0 end;
  if v_tenants is not null then
    v_tenant := stint.look_at_tenant(admission.queue, admission.tenant, 1, v_tenants);
    v_tenant.depth := stint.tenant_depth(admission.queue, admission.tenant, 0);
    v_tenant.age_ms := stint.tenant_age(admission.queue, admission.tenant);
    tenant_policy := v_tenants ->> 'policy';
    tenant_depth := v_tenant.depth;
    tenant_age_ms := v_tenant.age_ms;
    tenant_max_depth := (v_tenants ->> 'maxDepth')::bigint;
    tenant_max_age_ms := (v_tenants ->> 'maxAgeMs')::double precision;
    v_own := stint.exceeds_admission(v_tenant, case when tenant_policy = 'shed' then v_tenants - 'maxAgeMs' else v_tenants end, 1);
  end if;
  if v_own then
    is_full := true;
    v_met := v_met || tenant_policy;
    retry_after_ms := greatest(retry_after_ms, stint.retry_after(v_tenant, v_tenants, 1));
    if tenant_policy = 'defer' then
      defer_ms := greatest(defer_ms, coalesce((v_tenants ->> 'deferByMs')::bigint, stint.retry_after(v_tenant, v_tenants, 1)));
    end if;
  end if;
  -- Of two policies, the one with the greater consequence.
  on_enqueue := coalesce((select m.met from unnest(v_met) as m (met) order by array_position(array['reject', 'shed', 'defer', 'warn'], m.met) limit 1), 'accept');
  admits := on_enqueue <> 'reject';
  return next;
end
$$;

select stint.revoke_new_functions();
