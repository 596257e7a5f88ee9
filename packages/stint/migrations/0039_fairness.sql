-- Queues that share their workers among tenants. The setting is in stint.queue, the tenant of each of their jobs in stint.job.fair_tenant.
-- oldest code: 1

-- Queues that became fair while they had jobs: the jobs in them get their fair_tenant from adopt_fair().
create table stint.fair_backlog (
  name   text collate "C" primary key,             -- a name or pattern of stint.queue
  xid    xid8 not null default pg_current_xact_id(),
  after  uuid not null default '00000000-0000-0000-0000-000000000000',  -- the last job that was looked at
  missed boolean not null default false,           -- some job of this pass was locked
  since  timestamptz not null default clock_timestamp(),
  began  timestamptz not null default clock_timestamp(),  -- this pass
  due_at timestamptz not null default '-infinity'  -- the next pass
);

-- Checks the setting `fair` that a person or code wrote, and returns it as it is stored: {"by": "tenant", "weights": {…}}, or false.
create function stint.checked_fair(p_queue text, p_value jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_weights constant jsonb := case when jsonb_typeof(p_value) = 'object' then coalesce(p_value -> 'weights', '{}') end;
  v_wrong   text;
begin
  if p_value is null or p_value = 'null' then
    return null;
  elsif p_value = 'false' then
    return 'false';
  elsif p_value = '"tenant"' then
    return '{"by": "tenant", "weights": {}}';
  end if;
  if v_weights is null or p_value -> 'by' is distinct from '"tenant"' or p_value - array['by', 'weights'] <> '{}' or jsonb_typeof(v_weights) <> 'object' then
    perform stint.refuse_setting(p_queue, 'fair must be "tenant", false, or {"by": "tenant", "weights": {"acme": 3}}', p_value::text);
  end if;
  if (select count(*) from jsonb_object_keys(v_weights)) > 1000 then
    perform stint.refuse_setting(p_queue, 'fair.weights must have at most 1000 tenants', (select count(*) from jsonb_object_keys(v_weights))::text);
  end if;
  select w.key || ': ' || w.value::text into v_wrong
  from jsonb_each(v_weights) w
  where length(w.key) not between 1 and 512 or not stint.is_count(w.value) or (w.value #>> '{}')::numeric > 1000
  limit 1;
  if found then
    perform stint.refuse_setting(p_queue, 'fair.weights must be integers from 1 to 1000, by tenant', v_wrong);
  end if;
  return jsonb_build_object('by', 'tenant', 'weights', v_weights);
end
$$;

-- Whether a queue shares its workers among tenants: by the setting of its name, else of the longest pattern.
create function stint.is_fair(p_queue text) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fair jsonb;
begin
  select q.fair into v_fair from stint.queue q where q.name = p_queue and q.fair is not null;
  if not found then
    select q.fair into v_fair
    from stint.queue q
    where q.fair is not null and strpos(q.name, '*') > 0 and q.name >= stint.by_index((select ''::text))
      and p_queue like replace(replace(q.name, '_', '!_'), '*', '%') escape '!'
    order by length(q.name) desc
    limit 1;
  end if;
  return coalesce(v_fair <> 'false', false);
end
$$;

-- For an enqueue to these queues: whether any has admission settings, and which are fair.
create function stint.queue_rules(p_queues text[], out limited boolean, out fair text[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  select coalesce(bool_or(stint.admission_of(q.queue) is not null), false), coalesce(array_agg(q.queue) filter (where stint.is_fair(q.queue)), '{}')
  into limited, fair
  from (select distinct queue from unnest(p_queues) queue) q;
end
$$;

-- The fair_tenant of a job of this queue and tenant.
create function stint.fair_tenant(p_queue text, p_tenant text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case when stint.is_fair(p_queue) then coalesce(p_tenant, '') end
$$;

-- Checks the setting `aging` that a person or code wrote, and returns it in milliseconds; 0: false, which turns a pattern's setting off.
create function stint.checked_aging(p_queue text, p_value jsonb) returns numeric
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ms constant numeric := round(stint.to_ms(p_value));
begin
  if p_value is null or p_value = 'null' then
    return null;
  elsif p_value = 'false' then
    return 0;
  elsif v_ms is null or v_ms not between 1000 and 3153600000000 then
    perform stint.refuse_setting(p_queue, 'aging must be a length of time such as "10m", from 1 s to 36500 days, or false', p_value::text);
  end if;
  return v_ms;
end
$$;

-- In a fair queue, priorities are compared within a tenant only, so there is nothing to age.
create function stint.check_order(p_queue stint.queue) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_queue.fair <> 'false' and p_queue.aging_ms > 0 then
    perform stint.refuse_setting(p_queue.name, 'fair and aging cannot be set together', format('fair %s, aging %s ms', p_queue.fair, p_queue.aging_ms));
  end if;
end
$$;

-- The claim order of some queues has changed: workers read the settings again. The jobs of `p_fair`, names and patterns that have become fair, get
-- their fair_tenant.
create function stint.order_changed(p_fair text[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.fair_backlog (name)
  select f.name from unnest(p_fair) f (name) order by f.name
  on conflict (name) do update
    set xid = excluded.xid, after = excluded.after, missed = false, since = excluded.since, began = excluded.began, due_at = excluded.due_at;
  perform stint.wake(array['queues'], null);
end
$$;

-- For upkeep: gives at most `p_limit` jobs that were enqueued before their queue became fair their fair_tenant. Returns after how many milliseconds to
-- continue; null: there are none left. A job that this misses runs when the tenants of its queue have no ready jobs, or when it is the oldest.
create function stint.adopt_fair(p_limit integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row    stint.fair_backlog;
  v_last   uuid;
  v_missed boolean;
begin
  -- One session at a time; a row that another has locked is being worked on.
  select b.* into v_row from stint.fair_backlog b where b.due_at <= clock_timestamp() order by b.name limit 1 for update skip locked;
  if not found then
    return case when exists (select from stint.fair_backlog) then 1000 end;
  end if;
  with next as materialized (
    select j.id, j.queue, j.fair_tenant from stint.job j where j.id > v_row.after order by j.id limit p_limit
  ), wanted as materialized (
    select n.id from next n
    where n.fair_tenant is null
      and n.queue like replace(replace(v_row.name, '_', '!_'), '*', '%') escape '!'
      and n.queue in (select q.queue from (select distinct queue from next) q where stint.is_fair(q.queue))
  ), free as materialized (
    select j.id from stint.job j where j.id in (select w.id from wanted w) for no key update skip locked
  ), adopted as (
    update stint.job j set fair_tenant = coalesce(j.tenant, '') from free where j.id = free.id
  )
  select (select n.id from next n order by n.id desc limit 1), (select count(*) from free) < (select count(*) from wanted)
  into v_last, v_missed;
  if v_last is not null then
    update stint.fair_backlog b set after = v_last, missed = b.missed or v_missed where b.name = v_row.name;
    return 0;
  end if;
  -- The end of the table. Transactions that were open when the setting changed may still enqueue without a fair_tenant: look again. Passes take a
  -- twentieth of the time, and end after an hour: one transaction may stay open for days, and the numbers of a restored dump mean nothing here.
  if (v_row.missed or pg_snapshot_xmin(pg_current_snapshot()) <= v_row.xid) and v_row.since > clock_timestamp() - interval '1 hour' then
    update stint.fair_backlog b
    set after = default, missed = false, began = c.due, due_at = c.due
    from (select clock_timestamp() + greatest(interval '1 second', 20 * (clock_timestamp() - v_row.began)) as due) c
    where b.name = v_row.name;
    return 1000;
  end if;
  delete from stint.fair_backlog b where b.name = v_row.name;
  return 0;
end
$$;

select stint.revoke_new_functions();
