-- Admission settings, and the depth and age that they are compared with. Settings are in stint.queue.
-- oldest code: 1

-- The depth and the age of a queue with admission, read about once a second by the enqueues themselves, and by upkeep while it is full.
create table stint.admission_sample (
  queue      text collate "C" primary key,
  depth      bigint not null,                      -- jobs that have not ended
  age_ms     double precision not null,            -- of the oldest ready job; 0: none is ready
  sampled_at timestamptz not null,
  full_since timestamptz                           -- of the first of the samples in a row that found it full; null: the last one did not
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Jobs of tenants in queues with a limit per tenant. Rows of ended jobs are deleted by upkeep, and when a tenant reaches its limit.
create table stint.admitted (
  queue  text collate "C" not null,
  tenant text not null,
  job_id uuid not null,
  primary key (queue, tenant, job_id)
);

-- One row for each strict queue. Every enqueue updates it just before its commit, so that these commits happen one after the other.
create table stint.admission_gate (
  queue  text collate "C" primary key,
  passed bigint not null default 0
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Strict queues that an open transaction has enqueued to. The deferred trigger checks them and deletes the row.
create table stint.admission_check (
  queue text not null,
  xid   xid8 not null default pg_current_xact_id(),
  primary key (xid, queue)
);

-- Checks the admission settings that a person or code wrote, and returns them as they are stored.
create function stint.checked_admission(p_queue text, p_value jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_given  constant jsonb := case when jsonb_typeof(p_value) = 'object' then jsonb_strip_nulls(p_value) end;
  v_policy constant text := coalesce(v_given ->> 'policy', 'reject');
  v_ms     numeric;
  v_name   text;
begin
  if p_value is null or p_value = 'null' then
    return null;
  end if;
  if v_given is null or v_given - array['maxDepth', 'maxAge', 'policy', 'strict', 'deferBy', 'shed', 'tenant'] <> '{}' then
    perform stint.refuse_setting(p_queue,
      'admission must be an object of maxDepth, maxAge, policy, strict, deferBy, shed and tenant', p_value::text);
  end if;
  if not v_given ?| array['maxDepth', 'maxAge', 'tenant'] then
    perform stint.refuse_setting(p_queue, 'admission needs maxDepth, maxAge or tenant', p_value::text);
  end if;
  if v_given ? 'maxDepth' and not stint.is_count(v_given -> 'maxDepth') then
    perform stint.refuse_setting(p_queue, 'admission.maxDepth must be an integer from 1 to 1000000000', (v_given -> 'maxDepth')::text);
  end if;
  if v_given ? 'tenant' and (jsonb_typeof(v_given -> 'tenant') <> 'object' or (v_given -> 'tenant') - 'maxDepth' <> '{}'
    or not stint.is_count(v_given -> 'tenant' -> 'maxDepth'))
  then
    perform stint.refuse_setting(p_queue, 'admission.tenant must be {"maxDepth": an integer from 1 to 1000000000}', (v_given -> 'tenant')::text);
  end if;
  foreach v_name in array array['maxAge', 'deferBy'] loop
    v_ms := stint.to_ms(v_given -> v_name);
    if v_given ? v_name and (v_ms is null or round(v_ms) not between 1 and 3153600000000) then
      perform stint.refuse_setting(p_queue, format('admission.%s must be a length of time such as "30s", from 1 ms to 36500 days', v_name), (v_given -> v_name)::text);
    end if;
  end loop;
  if v_policy not in ('reject', 'defer', 'shed', 'warn') or v_given ? 'policy' and jsonb_typeof(v_given -> 'policy') <> 'string' then
    perform stint.refuse_setting(p_queue, 'admission.policy must be "reject", "defer", "shed" or "warn"', (v_given -> 'policy')::text);
  end if;
  if v_given ? 'strict' and jsonb_typeof(v_given -> 'strict') <> 'boolean' then
    perform stint.refuse_setting(p_queue, 'admission.strict must be true or false', (v_given -> 'strict')::text);
  end if;
  if v_given -> 'strict' = 'true' and (not v_given ? 'maxDepth' or v_policy not in ('reject', 'shed')) then
    perform stint.refuse_setting(p_queue, 'admission.strict needs maxDepth, and the policy "reject" or "shed"', p_value::text);
  end if;
  if v_given ? 'deferBy' and v_policy <> 'defer' then
    perform stint.refuse_setting(p_queue, 'admission.deferBy needs the policy "defer"', p_value::text);
  end if;
  if v_given ? 'shed' and (v_policy <> 'shed' or v_given -> 'shed' not in ('"lowest-priority"', '"oldest"')) then
    perform stint.refuse_setting(p_queue, 'admission.shed must be "lowest-priority" or "oldest", beside the policy "shed"', (v_given -> 'shed')::text);
  end if;
  if v_policy = 'shed' and not v_given ? 'maxDepth' then
    perform stint.refuse_setting(p_queue, 'the policy "shed" needs maxDepth', p_value::text);
  end if;
  return jsonb_strip_nulls(jsonb_build_object(
    'maxDepth', v_given -> 'maxDepth', 'maxAgeMs', round(stint.to_ms(v_given -> 'maxAge')), 'policy', v_policy,
    'strict', case when v_given -> 'strict' = 'true' then true end, 'deferByMs', round(stint.to_ms(v_given -> 'deferBy')),
    'shed', case when v_policy = 'shed' then coalesce(v_given ->> 'shed', 'lowest-priority') end,
    'tenantMaxDepth', v_given -> 'tenant' -> 'maxDepth'));
end
$$;

create function stint.is_count(p_value jsonb) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when jsonb_typeof(p_value) = 'number'
    then (p_value #>> '{}')::numeric between 1 and 1000000000 and (p_value #>> '{}')::numeric = trunc((p_value #>> '{}')::numeric) else false end
$$;

-- The admission settings of a queue: of its name, else of the longest pattern. Null: it has none.
create function stint.admission_of(p_queue text) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select q.admission
  from stint.queue q
  where q.admission is not null
    and p_queue like replace(replace(q.name, '_', '!_'), '*', '%') escape '!'
  order by strpos(q.name, '*') > 0, length(q.name) desc
  limit 1
$$;

-- Jobs of a queue that have not ended, exactly as of this statement.
create function stint.live_depth(p_queue text) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(sum(d.live), 0)::bigint
  from (
    select t.live
    from (select base from stint.tally_fold order by fold desc limit 1) f
    cross join lateral (select s.queue, s.live from stint.tally s where s.fold >= stint.by_index(f.base)) t
    where t.queue = p_queue
    union all
    select u.live from stint.tally_unfolded u where u.queue = p_queue
  ) d
$$;

-- How long the oldest ready job of a queue has been waiting, in milliseconds. It looks at the head of each priority.
create function stint.ready_age(p_queue text) returns double precision
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  with recursive heads as (
    (select j.priority, j.run_at from stint.job j where j.state = 'ready' and j.queue = stint.by_index(p_queue) order by j.priority, j.run_at limit 1)
    union all
    select n.priority, n.run_at
    from heads h
    cross join lateral (
      select j.priority, j.run_at from stint.job j
      where j.state = 'ready' and j.queue = stint.by_index(p_queue) and j.priority > h.priority
      order by j.priority, j.run_at limit 1
    ) n
  )
  select coalesce(greatest(0, extract(epoch from clock_timestamp() - min(h.run_at)) * 1000), 0)::double precision from heads h
$$;

-- The sample of a queue, at most a second old. One session at a time renews it; the others compute their own, and wait for no lock.
create function stint.admission_sample(p_queue text) returns stint.admission_sample
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sample stint.admission_sample;
  v_set    jsonb;
begin
  select s.* into v_sample from stint.admission_sample s where s.queue = p_queue and s.sampled_at > clock_timestamp() - interval '1 second';
  if found then
    return v_sample;
  end if;
  v_sample := row(p_queue, stint.live_depth(p_queue), stint.ready_age(p_queue), clock_timestamp(), null);
  v_set := stint.admission_of(p_queue);
  if v_sample.depth >= (v_set ->> 'maxDepth')::bigint or v_sample.age_ms > (v_set ->> 'maxAgeMs')::double precision then
    v_sample.full_since := v_sample.sampled_at;
  end if;
  -- With a snapshot of its own, a transaction would fail on a row that another has renewed.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return v_sample;
  end if;
  -- A row that another session has locked belongs to a transaction that is renewing it.
  perform from stint.admission_sample s where s.queue = p_queue for update skip locked;
  if found then
    update stint.admission_sample s
    set depth = v_sample.depth, age_ms = v_sample.age_ms, sampled_at = v_sample.sampled_at,
        full_since = case when v_sample.full_since is not null then coalesce(s.full_since, v_sample.full_since) end
    where s.queue = p_queue;
  elsif not exists (select from stint.admission_sample s where s.queue = p_queue) and pg_try_advisory_xact_lock(hashtextextended('stint admission ' || p_queue, 0)) then
    insert into stint.admission_sample values (v_sample.*) on conflict do nothing;
  end if;
  return v_sample;
end
$$;

-- After how long an enqueue may be admitted: as long as the surplus takes to drain. The oldest job has waited while the whole depth arrived.
create function stint.retry_after(p_depth bigint, p_max bigint, p_age_ms double precision, p_max_age_ms double precision) returns integer
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select least(300000, greatest(1000,
    coalesce((p_depth - p_max + 1) * p_age_ms / nullif(p_depth, 0), 0), coalesce(p_age_ms - p_max_age_ms, 0)))::integer
$$;

create function stint.queue_full(p_queue text, p_tenant text, p_depth bigint, p_age_ms double precision, p_retry_ms integer) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: queue "%" is full%', p_queue, case when p_tenant is null then '' else format(' for tenant "%s"', left(p_tenant, 200)) end
    using errcode = 'ST006',
    detail = jsonb_strip_nulls(jsonb_build_object(
      'queue', p_queue, 'tenant', p_tenant, 'depth', p_depth, 'ageMs', round(p_age_ms::numeric), 'retryAfterMs', p_retry_ms))::text,
    hint = 'Nothing was enqueued. Try again later.';
end
$$;

-- PostgreSQL grants execute on new functions to everyone by default.
revoke all on all functions in schema stint from public;
