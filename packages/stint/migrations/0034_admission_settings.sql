-- Admission settings, and the depth and age that they are compared with. Settings are in stint.queue.
-- oldest code: 1

-- The depth and the age of a queue with admission, read about once a second by the enqueues themselves, and by upkeep while it is full.
create table stint.admission_sample (
  queue      text collate "C" primary key,
  depth      bigint not null,                      -- jobs that have not ended
  age_ms     double precision not null,            -- of the oldest ready job; 0: none is ready
  sampled_at timestamptz not null,
  behind     text,                                 -- of the dependencies in maxDelay, the one that exceeds its limit by most, or comes nearest to it
  delay_ms   double precision not null default 0,  -- how long a new job would wait for its tokens
  full_since timestamptz                           -- of the first of the samples in a row that found it full; null: the last one did not
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Jobs of tenants in queues with a limit per tenant. Rows of ended jobs are deleted by upkeep, and when a tenant reaches its limit.
create table stint.admitted (
  queue  text collate "C" not null,
  tenant text not null,
  job_id uuid not null,
  primary key (queue, tenant, job_id)
);

-- One row for each strict queue. Every enqueue and replay updates it just before its commit, so that these commits happen one after the other.
create table stint.admission_gate (
  queue  text collate "C" primary key,
  passed bigint not null default 0
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Strict queues, and tenants in them, that an open transaction has enqueued to. The deferred trigger checks them and deletes the rows.
create table stint.admission_check (
  queue  text not null,
  tenant text not null default '',                 -- empty: the queue as a whole
  xid    xid8 not null default pg_current_xact_id(),
  written boolean not null default true,           -- false: its jobs are about to be written; nothing is checked yet, also with SET CONSTRAINTS IMMEDIATE
  primary key (xid, queue, tenant)
);

-- When a worker tended admission last. One of them does it, at a time.
create table stint.admission_tended (
  id boolean primary key default true check (id),
  at timestamptz not null
) with (fillfactor = 10);

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
  v_value  jsonb;
begin
  if p_value is null or p_value = 'null' then
    return null;
  end if;
  if v_given is null or v_given - array['maxDepth', 'maxAge', 'maxDelay', 'policy', 'strict', 'deferBy', 'shed', 'tenant'] <> '{}' then
    perform stint.refuse_setting(p_queue,
      'admission must be an object of maxDepth, maxAge, maxDelay, policy, strict, deferBy, shed and tenant', p_value::text);
  end if;
  if not v_given ?| array['maxDepth', 'maxAge', 'maxDelay', 'tenant'] then
    perform stint.refuse_setting(p_queue, 'admission needs maxDepth, maxAge, maxDelay or tenant', p_value::text);
  end if;
  if v_given ? 'maxDelay' then
    if jsonb_typeof(v_given -> 'maxDelay') <> 'object' or (select count(*) from jsonb_object_keys(v_given -> 'maxDelay')) not between 1 and 16 then
      perform stint.refuse_setting(p_queue, 'admission.maxDelay must be an object of 1 to 16 dependencies, such as {"mail": "1h"}', (v_given -> 'maxDelay')::text);
    end if;
    for v_name, v_value in select key, value from jsonb_each(v_given -> 'maxDelay') loop
      v_ms := stint.to_ms(v_value);
      if v_ms is null or round(v_ms) not between 1 and 3153600000000 or v_name !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,115}$' then
        perform stint.refuse_setting(p_queue,
          'admission.maxDelay must have names of dependencies, each with a length of time such as "1h", from 1 ms to 36500 days', (v_given -> 'maxDelay')::text);
      end if;
    end loop;
  end if;
  if v_given ? 'maxDepth' and not stint.is_count(v_given -> 'maxDepth') then
    perform stint.refuse_setting(p_queue, 'admission.maxDepth must be an integer from 1 to 1000000000', (v_given -> 'maxDepth')::text);
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
  if v_given -> 'strict' = 'true' and (not (v_given ? 'maxDepth' or coalesce(v_given -> 'tenant' ? 'maxDepth', false)) or v_policy not in ('reject', 'shed')) then
    perform stint.refuse_setting(p_queue, 'admission.strict needs maxDepth or tenant.maxDepth, and the policy "reject" or "shed"', p_value::text);
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
    'tenant', stint.checked_tenant_admission(p_queue, v_given -> 'tenant', coalesce(v_given -> 'strict' = 'true', false)),
    'maxDelayMs', (select jsonb_object_agg(d.key, round(stint.to_ms(d.value))) from jsonb_each(v_given -> 'maxDelay') d)));
end
$$;

-- Not 10.0: jsonb keeps its decimal point, and a cast of that text to an integer fails.
create function stint.is_count(p_value jsonb) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when jsonb_typeof(p_value) = 'number' then p_value::numeric between 1 and 1000000000 and scale(p_value::numeric) = 0 else false end
$$;

-- The admission settings of a queue: of its name, else of the longest pattern. Null: it has none.
create function stint.admission_of(p_queue text) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_settings jsonb;
begin
  select q.admission into v_settings from stint.queue q where q.name = p_queue and q.admission is not null;
  if not found then
    select q.admission into v_settings
    from stint.queue q
    where q.admission is not null and strpos(q.name, '*') > 0 and q.name >= stint.by_index((select ''::text))
      and p_queue like replace(replace(q.name, '_', '!_'), '*', '%') escape '!'
    order by length(q.name) desc
    limit 1;
  end if;
  return v_settings;
end
$$;

-- Whether this row creates a job, as of now: not if its id was enqueued before, and not if another job holds its dedupe key. A row that replaces creates
-- a job behind a running holder, and a successor takes the key over from the job that settles in this transaction.
create function stint.adds_job(p_row jsonb) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select not case
    when p_row ? 'again' and exists (select from stint.jobs j where j.id = (p_row ->> 'id')::uuid) then true
    when p_row ? 'dedupe_ms' then exists (
      select from stint.dedupe_window w where w.kind = p_row ->> 'kind' and w.key = p_row ->> 'dedupe_key' and w.expires_at > clock_timestamp())
    when p_row ? 'dedupe_key' then exists (
      select from stint.job j
      where j.kind = p_row ->> 'kind' and j.dedupe_key = p_row ->> 'dedupe_key'
        and j.id is distinct from nullif(current_setting('stint_transaction.settles', true), '')::uuid
        and (not p_row ? 'replace' or j.state in ('scheduled', 'ready', 'retrying') or j.park_reason in ('limit', 'paused')
          or exists (select from stint.latest l where l.kind = j.kind and l.key = j.dedupe_key)))
    else false
  end
$$;

-- Counts this job for its tenant, if its queue has limits for tenants. For jobs that were not asked for admission: another job makes them, or it seemed
-- that they would add none. The latter have `p_checked`: a strict queue checks their tenant at the commit.
create function stint.note_tenant(p_row jsonb, p_checked boolean default false) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_set constant jsonb := case when p_row ->> 'tenant' is not null then stint.admission_of(p_row ->> 'queue') end;
begin
  if v_set ? 'tenant' then
    insert into stint.admitted (queue, tenant, job_id) values (p_row ->> 'queue', p_row ->> 'tenant', (p_row ->> 'id')::uuid) on conflict do nothing;
    if p_checked and not p_row ? 'exempt' and v_set -> 'strict' = 'true' then
      insert into stint.admission_check (queue, tenant) values (p_row ->> 'queue', p_row ->> 'tenant') on conflict do nothing;
    end if;
  end if;
end
$$;

-- A queue or pattern has a limit per tenant from now on: counts the jobs that are there.
create function stint.count_tenants() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.admitted (queue, tenant, job_id)
  select j.queue, j.tenant, j.id
  from stint.job j
  where j.tenant is not null and j.queue like replace(replace(new.name, '_', '!_'), '*', '%') escape '!'
  on conflict do nothing;
  return null;
end
$$;

create trigger count_tenants_of_new after insert on stint.queue
for each row when (new.admission ? 'tenant') execute function stint.count_tenants();
create trigger count_tenants after update of admission on stint.queue
for each row when (new.admission ? 'tenant' and not coalesce(old.admission ? 'tenant', false)) execute function stint.count_tenants();

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

-- The depth, the age and the delay of a queue now, for these settings.
create function stint.look_at_queue(p_queue text, p_settings jsonb) returns stint.admission_sample
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sample stint.admission_sample;
begin
  v_sample.queue := p_queue;
  v_sample.depth := stint.live_depth(p_queue);
  v_sample.age_ms := stint.ready_age(p_queue);
  v_sample.delay_ms := 0;
  if p_settings ? 'maxDelayMs' then
    select d.name, d.delay_ms into v_sample.behind, v_sample.delay_ms
    from (
      select m.key as name, stint.dependency_delay(m.key) as delay_ms, m.value::double precision as most from jsonb_each_text(p_settings -> 'maxDelayMs') m
    ) d
    order by d.delay_ms - d.most desc
    limit 1;
  end if;
  v_sample.sampled_at := clock_timestamp();
  return v_sample;
end
$$;

-- Whether `p_count` more jobs do not fit.
create function stint.exceeds_admission(p_sample stint.admission_sample, p_settings jsonb, p_count bigint) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select not (
    coalesce(p_sample.depth + p_count <= (p_settings ->> 'maxDepth')::bigint, true)
    and coalesce(p_sample.age_ms <= (p_settings ->> 'maxAgeMs')::double precision, true)
    and coalesce(p_sample.delay_ms <= (p_settings -> 'maxDelayMs' ->> p_sample.behind)::double precision, true))
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
  v_set := stint.admission_of(p_queue);
  v_sample := stint.look_at_queue(p_queue, v_set);
  if stint.exceeds_admission(v_sample, v_set, 1) then
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
    set depth = v_sample.depth, age_ms = v_sample.age_ms, behind = v_sample.behind, delay_ms = v_sample.delay_ms, sampled_at = v_sample.sampled_at,
        full_since = case when v_sample.full_since is not null then coalesce(s.full_since, v_sample.full_since) end
    where s.queue = p_queue;
  elsif not exists (select from stint.admission_sample s where s.queue = p_queue) and pg_try_advisory_xact_lock(hashtextextended('stint admission ' || p_queue, 0)) then
    insert into stint.admission_sample values (v_sample.*) on conflict do nothing;
  end if;
  return v_sample;
end
$$;

-- After how long an enqueue of `p_count` jobs may be admitted: as long as the surplus takes to drain. The oldest job has waited while the whole depth
-- arrived.
create function stint.retry_after(p_sample stint.admission_sample, p_settings jsonb, p_count bigint) returns integer
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select least(300000, greatest(1000,
    coalesce((p_sample.depth + p_count - (p_settings ->> 'maxDepth')::bigint) * p_sample.age_ms / nullif(p_sample.depth + p_count - 1, 0), 0),
    coalesce(p_sample.age_ms - (p_settings ->> 'maxAgeMs')::double precision, 0),
    coalesce(p_sample.delay_ms - (p_settings -> 'maxDelayMs' ->> p_sample.behind)::double precision, 0)))::integer
$$;

create function stint.queue_full(p_sample stint.admission_sample, p_tenant text, p_retry_ms integer) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: queue "%" is full%', p_sample.queue, case
      when p_tenant is not null then format(' for tenant "%s"', left(p_tenant, 200))
      when p_sample.behind is not null then format(': dependency "%s" is %s ms behind', p_sample.behind, round(p_sample.delay_ms)) else '' end
    using errcode = 'ST006',
    detail = jsonb_strip_nulls(jsonb_build_object(
      'queue', p_sample.queue, 'tenant', p_tenant, 'depth', p_sample.depth, 'ageMs', round(p_sample.age_ms::numeric), 'retryAfterMs', p_retry_ms,
      'dependency', p_sample.behind, 'delayMs', case when p_sample.behind is not null then round(p_sample.delay_ms::numeric) end))::text,
    hint = 'Nothing was enqueued. Try again later.';
end
$$;

select stint.revoke_new_functions();
