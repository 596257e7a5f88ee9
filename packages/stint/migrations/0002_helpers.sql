-- Small functions that enqueues and the other statements use: ids, wakes, deadlines.
-- oldest code: 1

-- UUIDv7 for callers without a client: 48 bits of milliseconds, then randomness.
create function stint.new_id() returns uuid
language sql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select (
    lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
    || '7'
    || substr(replace(gen_random_uuid()::text, '-', ''), 14)
  )::uuid
$$;

-- The channel of this installation's wakes. It contains the schema, so that two installations have separate channels. The migration
-- replaces the qualifier in the text by the real schema. The planner folds the function to a constant: looking the schema up cost more
-- than the wake.
create function stint.wake_channel() returns text
language sql immutable parallel safe
as $$
  select 'stint:' || btrim(split_part('stint.job', '.', 1), '"')
$$;

-- Sends wakes to the workers that listen. The hint `ready:<queue>` is given once for each job, so that no more workers wake than are needed. `p_notify` as
-- in enqueue_rows: null means not where the server allows prepared transactions. A full notification queue would fail the commit, and a wake is only a
-- hint: none is sent then.
create function stint.wake(p_hints text[], p_notify boolean default true) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_listeners integer;
begin
  if p_hints = '{}' or not coalesce(p_notify, current_setting('max_prepared_transactions') = '0') or pg_notification_queue_usage() >= 0.5 then
    return;
  end if;
  select count(*) into v_listeners
  from (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute') limit 5) w;
  if v_listeners > 0 then
    -- With few workers, each is woken.
    perform pg_notify(stint.wake_channel(), case when v_listeners = 5 and h.hint like 'ready:%' then stint.ready_hint(substr(h.hint, 7), h.jobs) else h.hint end)
    from (select h as hint, count(*) as jobs from unnest(p_hints) h group by h) h;
  end if;
end
$$;

-- Keeps the first attempt and the latest ones; with 20 entries the second oldest is dropped.
create function stint.append_attempt(log jsonb, entry jsonb) returns jsonb
language sql immutable parallel safe
as $$
  select case
    when log is null then jsonb_build_array(entry)
    when jsonb_array_length(log) < 20 then log || jsonb_build_array(entry)
    else (log - 1) || jsonb_build_array(entry)
  end
$$;

-- The reason given with the newest request to cancel a job; null if none was given.
create function stint.cancel_reason(p_job uuid) returns text
language sql stable
as $$
  select a.reason
  from stint.audit a
  where a.job_id = p_job and a.action = 'cancel'
    and not exists (
      select from stint.audit later
      where later.job_id = p_job and later.action = 'cancel' and (later.at, later.id) > (a.at, a.id)
    )
$$;

-- Returns its argument. Only its cost matters: the planner counts it once for a value that is looked up in an index, and once
-- for every row otherwise. Without it, statistics from a moment when a queue was empty make a bitmap scan and a sort of the
-- whole queue look as cheap as the index scan that stops after a few rows.
create function stint.by_index(value anyelement) returns anyelement
language plpgsql immutable parallel safe cost 40000
as $$
begin
  return value;
end
$$;

-- ---- Deadlines -------------------------------------------------------------------------------------

-- A statement may take effect long after its sender gave up on it: the network held it back, its backend was stopped, or it waited
-- for a lock. So the sender passes a deadline by the server's clock. Both functions fail the statement, so that it writes
-- nothing, and report the server's clock, so that the sender can correct its estimate.

create function stint.too_late() returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: the statement arrived after its deadline and changed nothing'
    using errcode = 'ST001', detail = to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    hint = 'It was slow, or the clock of the server was set. Stint sends it again.';
end
$$;

create function stint.too_early() returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: the repeat arrived before the deadline of the statement it repeats and changed nothing'
    using errcode = 'ST002', detail = to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    hint = 'Stint sends it again once the deadline has passed.';
end
$$;

-- ---- Rights ----------------------------------------------------------------------------------------

-- PostgreSQL grants execute on new functions to everyone by default. Every migration with functions ends by revoking it. Only from those that
-- still have it: a revoke from all functions of the schema writes a new version of each, thousands for a new installation. They are found by
-- their dependency on the schema, because pg_proc has no index on the schema alone.
create function stint.revoke_new_functions() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_function regprocedure;
begin
  for v_function in
    select f.oid::regprocedure
    from pg_class c
    join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = c.relnamespace and d.classid = 'pg_proc'::regclass
    join pg_proc f on f.oid = d.objid
    where c.oid = 'stint.job'::regclass
      and exists (select from aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a where a.grantee = 0)
  loop
    execute format('revoke all on routine %s from public', v_function);
  end loop;
end
$$;

select stint.revoke_new_functions();
