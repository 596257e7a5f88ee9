-- Schedules: recurring rules, and the ledger of the slots they have fired.
-- oldest code: 1

create table stint.schedule (
  name        text collate "C" primary key,
  owner       text,                                -- the service whose code declares it; null: made at run time
  cron        text,                                -- either a pattern on the clocks of `zone`
  every_ms    bigint,                              -- or an interval of real time, counted from start_at, else from 1970
  zone        text not null default 'UTC',
  start_at    timestamptz,                         -- no slot before it
  end_at      timestamptz,                         -- no slot after it
  jitter_ms   bigint not null default 0,           -- each slot fires up to this much later
  catch_up    text not null default 'last',
  overlap     text not null default 'allow',
  quiet_hours jsonb,
  job         jsonb not null,                      -- the job of each slot, as enqueue_rows takes it, without its id
  paused_at   timestamptz,
  -- One more at every change. Workers compute slots outside the database, and write them only for the revision they have read.
  revision    integer not null default 1,
  next_slot   timestamptz,                         -- null: a worker has yet to compute it, or there is none
  due_at      timestamptz,                         -- when a worker must act; null: paused or ended
  last_slot   timestamptz,                         -- the last slot that fired
  last_job_id uuid,
  fired       bigint not null default 0,
  missed      bigint not null default 0,           -- by catch_up: no worker ran when they were due
  skipped     bigint not null default 0,           -- by overlap: the job before had not ended
  error       text,                                -- why its slots cannot be computed or its job cannot be enqueued
  created_at  timestamptz not null default clock_timestamp(),
  updated_at  timestamptz not null default clock_timestamp(),
  updated_by  text not null,
  constraint schedule_name_has_1_to_128_characters check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$'),
  constraint schedule_has_cron_or_every check (num_nonnulls(cron, every_ms) = 1),
  constraint schedule_values_are_in_range check (
    every_ms between 1000 and 3153600000000 and jitter_ms between 0 and 86400000 and length(cron) <= 256 and length(zone) <= 64
    and start_at between '1970-01-01 00:00:00+00' and '9999-12-31 23:59:59+00'
    and end_at between '1970-01-01 00:00:00+00' and '9999-12-31 23:59:59+00'),
  constraint schedule_policies_are_known check (catch_up in ('none', 'last', 'all') and overlap in ('skip', 'queue', 'allow')),
  constraint schedule_paused_has_no_slot check (paused_at is null or (next_slot is null and due_at is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create index schedule_due on stint.schedule (due_at) where due_at is not null;
create index schedule_owner on stint.schedule (owner) where owner is not null;
create index schedule_queued on stint.schedule (last_job_id) where overlap = 'queue';

-- The slots that have fired, and those that did not with the reason. A slot is in it once, written in the transaction that enqueues its job.
-- It outlives the job and the schedule, so that a schedule that is removed and made again does not fire a slot twice.
create table stint.schedule_slot (
  schedule  text collate "C" not null,
  slot      timestamptz not null,
  outcome   text not null check (outcome in ('fired', 'missed', 'skipped', 'failed', 'run-now')),
  slots     integer not null default 1,            -- a row of missed or skipped slots is for so many of them
  last_slot timestamptz,                           -- and until this one
  job_id    uuid,
  at        timestamptz not null default clock_timestamp(),
  primary key (schedule, slot)
);
create index schedule_slot_at on stint.schedule_slot (at);

-- ---- Firing ----------------------------------------------------------------------------------------

-- The job of a slot: the schedule's job with an id, a key that names the slot, and the slot in its meta.
create function stint.job_of_slot(p_schedule stint.schedule, p_id uuid, p_slot timestamptz, p_run_at timestamptz) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select (p_schedule).job
    || jsonb_build_object(
      'id', p_id,
      'exempt', true,                              -- from admission: a full queue must not stop the schedule
      'key', coalesce((p_schedule).job ->> 'key', (p_schedule).name) || '@' || iso.slot,
      'meta', coalesce((p_schedule).job -> 'meta', '{}')
        || jsonb_build_object('schedule', jsonb_build_object('name', (p_schedule).name, 'slot', iso.slot))
        || case when (p_schedule).quiet_hours is null then '{}' else jsonb_build_object('quietHours', (p_schedule).quiet_hours) end)
    || case when p_run_at is null then '{}' else jsonb_build_object('run_at', p_run_at) end
  from (select to_char(p_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as slot) iso
$$;

-- Whether the job of a slot has not ended. A job that was continued has ended when its chain has.
create function stint.run_is_live(p_job uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from stint.job j where j.id = p_job)
    or exists (select from stint.flow_job m join stint.job j on j.id = m.last_id where m.job_id = p_job);
end
$$;

-- Fires due slots. Each of `p_fires` is what a worker computed for one schedule: {"name", "revision", "from": the slot it computed from,
-- "slots": [{"slot", "run_at"}] to fire, "missed": {"slot", "last_slot", "slots"}, "next_slot", "due_at"}. What has changed meanwhile is left
-- out: another worker has fired it, or it was changed, paused or removed. Slots, jobs and the next slot commit together.
create function stint.fire_schedules(p_fires jsonb, p_until timestamptz)
returns table (moved integer, fired integer, missed integer, skipped integer, queues text[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := clock_timestamp();
  v_fire     jsonb;
  v_slot     jsonb;
  v_next     timestamptz;
  v_due      timestamptz;
  v_schedule stint.schedule;
  v_live     boolean;
  v_id       uuid;
  v_last     timestamptz;
  v_fired    integer;
  v_missed   integer;
  v_skipped  integer;
  v_rows     jsonb[] := '{}';
  v_awaited  uuid[] := '{}';
begin
  moved := 0; fired := 0; missed := 0; skipped := 0;
  -- One order for all workers prevents deadlocks; rows that another worker is firing are left to it.
  for v_fire in
    select f.value from jsonb_array_elements(p_fires) f order by (f.value ->> 'name') collate "C"
  loop
    select * into v_schedule
    from stint.schedule s
    where s.name = v_fire ->> 'name'
      and s.revision = (v_fire ->> 'revision')::integer
      and s.next_slot is not distinct from (v_fire ->> 'from')::timestamptz
      and s.due_at <= v_now
    for update skip locked;
    continue when not found;

    v_live := v_schedule.overlap <> 'allow' and stint.run_is_live(v_schedule.last_job_id);
    v_next := (v_fire ->> 'next_slot')::timestamptz;
    v_due := (v_fire ->> 'due_at')::timestamptz;
    v_id := v_schedule.last_job_id;
    v_last := v_schedule.last_slot;
    v_fired := 0; v_missed := 0; v_skipped := 0;

    -- The slots wait for the job before. Its end makes the schedule due again (follow_up_runs); this time is the safety net.
    if v_live and v_schedule.overlap = 'queue' and v_fire -> 'slots' <> '[]' then
      update stint.schedule s set due_at = v_now + interval '30 seconds' where s.name = v_schedule.name;
      continue;
    end if;

    if v_fire -> 'missed' <> 'null' then
      insert into stint.schedule_slot (schedule, slot, outcome, slots, last_slot)
      values (v_schedule.name, (v_fire #>> '{missed,slot}')::timestamptz, 'missed', (v_fire #>> '{missed,slots}')::integer,
        (v_fire #>> '{missed,last_slot}')::timestamptz)
      on conflict do nothing;
      v_missed := (v_fire #>> '{missed,slots}')::integer;
    end if;

    for v_slot in select e.value from jsonb_array_elements(v_fire -> 'slots') e loop
      -- A clock that was set back: no slot fires before its time.
      exit when (v_slot ->> 'slot')::timestamptz > v_now;
      if v_live and v_schedule.overlap = 'queue' then
        v_next := (v_slot ->> 'slot')::timestamptz;
        v_due := v_now + interval '30 seconds';
        exit;
      end if;
      if v_live then
        insert into stint.schedule_slot (schedule, slot, outcome, job_id)
        values (v_schedule.name, (v_slot ->> 'slot')::timestamptz, 'skipped', v_id)
        on conflict do nothing;
        v_skipped := v_skipped + 1;
        continue;
      end if;
      insert into stint.schedule_slot (schedule, slot, outcome, job_id)
      values (v_schedule.name, (v_slot ->> 'slot')::timestamptz, 'fired', stint.new_id())
      on conflict do nothing
      returning job_id into v_id;
      continue when not found;
      v_rows := array_append(v_rows,
        stint.job_of_slot(v_schedule, v_id, (v_slot ->> 'slot')::timestamptz, (v_slot ->> 'run_at')::timestamptz));
      v_last := (v_slot ->> 'slot')::timestamptz;
      v_fired := v_fired + 1;
      if v_schedule.overlap = 'queue' then
        v_awaited := v_awaited || v_id;
      end if;
      v_live := v_schedule.overlap <> 'allow';
    end loop;

    update stint.schedule s
    set next_slot = v_next, due_at = v_due, last_slot = v_last, last_job_id = v_id, error = null,
        fired = s.fired + v_fired, missed = s.missed + v_missed, skipped = s.skipped + v_skipped
    where s.name = v_schedule.name;
    moved := moved + 1; fired := fired + v_fired; missed := missed + v_missed; skipped := skipped + v_skipped;
  end loop;

  if v_rows <> '{}' then
    perform from stint.enqueue_rows(to_jsonb(v_rows), false);
    update stint.job j set has_follow_ups = true where j.id = any (v_awaited);
  end if;
  queues := array(select distinct r ->> 'queue' from unnest(v_rows) r);
  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;
  return next;
end
$$;

-- A worker cannot compute the slots of a schedule, or the table refuses its job. The error stays with the schedule until a slot fires. With a
-- next slot the series goes on; without one it waits for a change.
create function stint.fail_schedule(
  p_name text, p_revision integer, p_from timestamptz, p_next timestamptz, p_due timestamptz, p_error text
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update stint.schedule s
  set next_slot = p_next, due_at = p_due, error = left(p_error, 1000)
  where s.name = p_name and s.revision = p_revision and s.next_slot is not distinct from p_from and s.due_at <= clock_timestamp();
  if found and p_from is not null then
    insert into stint.schedule_slot (schedule, slot, outcome) values (p_name, p_from, 'failed') on conflict do nothing;
  end if;
  return found;
end
$$;

-- ---- Changing --------------------------------------------------------------------------------------

-- Writes one checked schedule. `p_row` has the columns of the table by their names, and perhaps the slot that the caller computed. Returns
-- 'created', 'changed' or 'unchanged'. A change of its times replaces the pending slot; any other change keeps it.
create function stint.write_schedule(p_row jsonb, p_owner text, p_actor text) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_given  stint.schedule := jsonb_populate_record(null::stint.schedule, p_row);
  v_before stint.schedule;
  v_same   boolean;
begin
  select * into v_before from stint.schedule s where s.name = v_given.name;
  if found and v_before.owner is distinct from p_owner then
    raise exception 'stint: schedule "%" belongs to %', v_given.name, coalesce('the code of "' || v_before.owner || '"', 'the run-time schedules, not to code')
      using errcode = 'ST005', hint = 'Choose another name. Nothing was changed.';
  end if;
  -- The clock of the caller may be wrong. A worker then computes the slot, from updated_at.
  if v_given.next_slot <= clock_timestamp() then
    v_given.next_slot := null;
  end if;
  if v_given.next_slot is null then
    v_given.due_at := case when p_row ? 'next_slot' and p_row -> 'next_slot' = 'null' then null else clock_timestamp() end;
  end if;

  if v_before.name is null then
    insert into stint.schedule (
      name, owner, cron, every_ms, zone, start_at, end_at, jitter_ms, catch_up, overlap, quiet_hours, job, next_slot, due_at, updated_by
    ) values (
      v_given.name, p_owner, v_given.cron, v_given.every_ms, v_given.zone, v_given.start_at, v_given.end_at, v_given.jitter_ms, v_given.catch_up,
      v_given.overlap, nullif(v_given.quiet_hours, 'null'), v_given.job, v_given.next_slot, v_given.due_at, p_actor
    )
    on conflict do nothing;
    if found then
      return 'created';
    end if;
    -- Another session made it meanwhile.
    return stint.write_schedule(p_row, p_owner, p_actor);
  end if;

  if (v_before.cron, v_before.every_ms, v_before.zone, v_before.start_at, v_before.end_at, v_before.jitter_ms, v_before.catch_up, v_before.overlap,
      v_before.quiet_hours, v_before.job)
    is not distinct from (v_given.cron, v_given.every_ms, v_given.zone, v_given.start_at, v_given.end_at, v_given.jitter_ms, v_given.catch_up,
      v_given.overlap, nullif(v_given.quiet_hours, 'null'), v_given.job)
  then
    return 'unchanged';
  end if;
  v_same := (v_before.cron, v_before.every_ms, v_before.zone, v_before.start_at, v_before.end_at, v_before.jitter_ms)
    is not distinct from (v_given.cron, v_given.every_ms, v_given.zone, v_given.start_at, v_given.end_at, v_given.jitter_ms);
  update stint.schedule s
  set cron = v_given.cron, every_ms = v_given.every_ms, zone = v_given.zone, start_at = v_given.start_at, end_at = v_given.end_at,
      jitter_ms = v_given.jitter_ms, catch_up = v_given.catch_up, overlap = v_given.overlap, quiet_hours = nullif(v_given.quiet_hours, 'null'),
      job = v_given.job, revision = s.revision + 1, error = null, updated_by = p_actor,
      next_slot = case when s.paused_at is not null then null when v_same then s.next_slot else v_given.next_slot end,
      due_at = case when s.paused_at is not null then null when v_same then coalesce(s.due_at, v_given.due_at) else v_given.due_at end,
      updated_at = case when v_same then s.updated_at else clock_timestamp() end
  where s.name = v_given.name and s.owner is not distinct from p_owner;
  if not found then
    return stint.write_schedule(p_row, p_owner, p_actor);
  end if;
  return 'changed';
end
$$;

-- Makes the schedules of an owner those that its code declares: adds, changes and removes in this transaction. Workers that start with the same
-- code write nothing. Returns how many were changed.
create function stint.declare_schedules(p_owner text, p_rows jsonb, p_actor text) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row     jsonb;
  v_outcome text;
  v_name    text;
  v_changed integer := 0;
begin
  -- Workers of two releases that start at once must not mix their sets.
  perform pg_advisory_xact_lock(hashtextextended('stint schedules of ' || p_owner, 'stint.schedule'::regclass::oid::bigint));
  for v_row in select r.value from jsonb_array_elements(p_rows) r order by (r.value ->> 'name') collate "C" loop
    v_outcome := stint.write_schedule(v_row, p_owner, p_actor);
    if v_outcome <> 'unchanged' then
      v_changed := v_changed + 1;
      perform stint.audit_schedule('declare-schedule', v_row ->> 'name', null, p_actor, stint.shown_schedule(v_row));
    end if;
  end loop;
  for v_name in
    delete from stint.schedule s
    where s.owner = p_owner and not exists (select from jsonb_array_elements(p_rows) r where r.value ->> 'name' = s.name)
    returning s.name
  loop
    v_changed := v_changed + 1;
    perform stint.audit_schedule('remove-schedule', v_name, null, p_actor);
  end loop;
  return v_changed;
end
$$;

-- What the audit keeps of a schedule: its times, without the payload of its job.
create function stint.shown_schedule(p_row jsonb) returns jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select jsonb_strip_nulls(p_row - array['job', 'name', 'next_slot', 'due_at'])
$$;

create function stint.audit_schedule(p_action text, p_name text, p_reason text, p_actor text, p_change jsonb default null) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  insert into stint.audit (id, actor, action, reason, schedule, change)
  values (stint.new_id(), p_actor, p_action, p_reason, p_name, p_change)
$$;

-- Writes schedules that are made at run time: all of them, or none. A repeat of the same call changes nothing. Returns how many changed.
create function stint.put_schedules(p_rows jsonb, p_actor text, p_reason text) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row     jsonb;
  v_changed integer := 0;
begin
  for v_row in select r.value from jsonb_array_elements(p_rows) r order by (r.value ->> 'name') collate "C" loop
    if stint.write_schedule(v_row, null, p_actor) <> 'unchanged' then
      v_changed := v_changed + 1;
      perform stint.audit_schedule('set-schedule', v_row ->> 'name', p_reason, p_actor, stint.shown_schedule(v_row));
    end if;
  end loop;
  return v_changed;
end
$$;

-- ---- The SQL API -----------------------------------------------------------------------------------

create function stint.refuse_schedule(p_name text, p_rule text, p_value text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: schedule %: % (got %)', coalesce(quote_literal(left(p_name, 200)), 'null'), p_rule, coalesce(left(p_value, 200), 'null')
    using errcode = '22023', hint = 'Nothing was changed.';
end
$$;

-- Checks the numbers of a cron pattern. Workers read the rest of its syntax (L, W, #, +), and keep what is wrong with it in `error`.
create function stint.check_cron(p_name text, p_cron text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_names   constant text[] := array['second', 'minute', 'hour', 'day', 'month', 'weekday'];
  v_lowest  constant integer[] := array[0, 0, 0, 1, 1, 0];
  v_highest constant integer[] := array[59, 59, 23, 31, 12, 7];
  v_words   constant text[] := array['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
  v_days    constant text[] := array['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
  v_fields  text[];
  v_part    text;
  v_range   text[];
  v_plain   boolean := true;
begin
  if lower(btrim(p_cron)) in ('@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly') then
    return;
  end if;
  if p_cron is null or length(p_cron) > 256 or p_cron !~ '^[0-9A-Za-z*,/#+[:space:]-]+$' then
    perform stint.refuse_schedule(p_name, 'cron must be a pattern of at most 256 characters such as "0 3 * * *"', p_cron);
  end if;
  v_fields := regexp_split_to_array(upper(btrim(p_cron)), '[[:space:]]+');
  if cardinality(v_fields) = 5 then
    v_fields := '0'::text || v_fields;
  elsif cardinality(v_fields) <> 6 then
    perform stint.refuse_schedule(p_name, 'cron must have five fields (minute hour day month weekday), or six with seconds first', p_cron);
  end if;
  for field in 1 .. 6 loop
    for n in 1 .. 12 loop
      continue when field < 5 or (field = 6 and n > 7);
      v_fields[field] := replace(v_fields[field], case field when 5 then v_words[n] else v_days[n] end, (case field when 5 then n else n - 1 end)::text);
    end loop;
    foreach v_part in array string_to_array(v_fields[field], ',') loop
      v_range := regexp_match(v_part, '^([0-9]{1,2})(?:-([0-9]{1,2})(?:/([0-9]{1,2}))?)?$');
      if v_range is not null then
        if v_range[1]::integer not between v_lowest[field] and v_highest[field]
          or v_range[2]::integer not between v_range[1]::integer and v_highest[field] or v_range[3]::integer = 0
        then
          perform stint.refuse_schedule(p_name,
            format('cron must have a %s from %s to %s', v_names[field], v_lowest[field], v_highest[field]), p_cron);
        end if;
        v_plain := v_plain and (v_range[2] is null or field not in (4, 5));
      elsif v_part ~ '^[*](/0*[1-9][0-9]{0,2})?$' then
        v_plain := v_plain and field not in (4, 5);
      elsif field in (4, 6) and v_part ~ '^[0-9LW#+*-]+$' and v_part !~ '#([^1-5L]|$)' and (field = 6 or v_part !~ '#') then
        v_plain := false;
      else
        perform stint.refuse_schedule(p_name, format('cron has a %s that cannot be read', v_names[field]), p_cron);
      end if;
    end loop;
  end loop;
  -- Days and months are plain numbers, and no weekday can match instead: some month must have one of the days.
  if v_plain and v_fields[6] = '*' and not exists (
    select
    from unnest(string_to_array(v_fields[4], ',')::integer[]) d (day), unnest(string_to_array(v_fields[5], ',')::integer[]) m (month)
    where d.day <= (array[31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[m.month])
  then
    perform stint.refuse_schedule(p_name, 'cron never matches a day', p_cron);
  end if;
end
$$;

-- An IANA name. Postgres would take "+02" and "CEST" as well, which have no clock changes.
create function stint.check_zone(p_name text, p_zone text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rule constant text := 'zone must be the IANA name of a time zone such as "Europe/Berlin" or "UTC"';
begin
  if p_zone = 'UTC' then
    return;
  end if;
  if p_zone is null or length(p_zone) > 64 or p_zone !~ '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){1,2}$' then
    perform stint.refuse_schedule(p_name, v_rule, p_zone);
  end if;
  begin
    perform now() at time zone p_zone;
  exception
    when data_exception then
      perform stint.refuse_schedule(p_name, v_rule, p_zone);
  end;
end
$$;

-- {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}, or null.
create function stint.checked_quiet_hours(p_name text, p_value jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_time constant text := '^([01][0-9]|2[0-3]):[0-5][0-9]$';
begin
  if p_value is null or p_value = 'null' then
    return null;
  end if;
  if jsonb_typeof(p_value) <> 'object' or p_value - array['from', 'to', 'zone'] <> '{}' or coalesce(p_value ->> 'from', '') !~ v_time
    or coalesce(p_value ->> 'to', '') !~ v_time or p_value ->> 'from' = p_value ->> 'to'
  then
    perform stint.refuse_schedule(p_name,
      'quietHours must be {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"} with two different times', p_value::text);
  end if;
  perform stint.check_zone(p_name, coalesce(p_value ->> 'zone', 'UTC'));
  return jsonb_build_object('zone', 'UTC') || jsonb_strip_nulls(p_value);
end
$$;

-- Turns what a person wrote into a row for write_schedule, or refuses it with the rule it breaks.
create function stint.checked_schedule(p_name text, p_options jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_allowed constant text[] := array[
    'cron', 'every', 'zone', 'kind', 'payload', 'options', 'catchUp', 'jitter', 'overlap', 'startAt', 'endAt', 'quietHours'];
  v_options jsonb;
  v_unknown text;
  v_every   numeric;
  v_jitter  numeric;
  v_start   timestamptz;
  v_end     timestamptz;
begin
  if p_name is null or p_name !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' then
    perform stint.refuse_schedule(p_name,
      'the name must have 1 to 128 characters from A-Z, a-z, 0-9 and . _ : / -, beginning with a letter or a digit', quote_literal(p_name));
  end if;
  if p_options is null or jsonb_typeof(p_options) <> 'object' then
    perform stint.refuse_schedule(p_name, 'options must be a JSON object such as {"cron": "0 3 * * *", "kind": "audit"}', p_options::text);
  end if;
  select o into v_unknown from jsonb_object_keys(p_options) o where o <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: schedule "%": unknown option "%"', p_name, left(v_unknown, 200)
      using errcode = '22023', hint = 'Options are: ' || array_to_string(v_allowed, ', ') || '. Nothing was changed.';
  end if;
  select coalesce(jsonb_object_agg(o.key, o.value), '{}') into v_options from jsonb_each(p_options) o where o.value <> 'null' or o.key = 'payload';

  if v_options ? 'cron' = v_options ? 'every' then
    perform stint.refuse_schedule(p_name, 'give cron or every, one of them', v_options::text);
  end if;
  if v_options ? 'cron' then
    perform stint.check_cron(p_name, v_options ->> 'cron');
  else
    v_every := stint.to_ms(v_options -> 'every');
    if v_every is null or round(v_every) not between 1000 and 3153600000000 then
      perform stint.refuse_schedule(p_name, 'every must be a length of time such as "15m", from 1 s to 36500 days', v_options ->> 'every');
    end if;
  end if;
  perform stint.check_zone(p_name, coalesce(v_options ->> 'zone', 'UTC'));
  v_jitter := coalesce(stint.to_ms(v_options -> 'jitter'), case when v_options ? 'jitter' then -1 else 0 end);
  if round(v_jitter) not between 0 and 86400000 then
    perform stint.refuse_schedule(p_name, 'jitter must be a length of time such as "30s", at most 1 day', v_options ->> 'jitter');
  end if;
  if coalesce(v_options ->> 'catchUp', 'last') not in ('none', 'last', 'all') then
    perform stint.refuse_schedule(p_name, 'catchUp must be "none", "last" or "all"', v_options ->> 'catchUp');
  end if;
  if coalesce(v_options ->> 'overlap', 'allow') not in ('skip', 'queue', 'allow') then
    perform stint.refuse_schedule(p_name, 'overlap must be "skip", "queue" or "allow"', v_options ->> 'overlap');
  end if;
  v_start := stint.checked_time(p_name, v_options, 'startAt');
  v_end := stint.checked_time(p_name, v_options, 'endAt');
  if v_end <= clock_timestamp() or v_end < v_start then
    perform stint.refuse_schedule(p_name, 'endAt must be in the future and not before startAt', v_options ->> 'endAt');
  end if;
  if jsonb_typeof(coalesce(v_options -> 'options', '{}')) <> 'object' then
    perform stint.refuse_schedule(p_name, 'options must be a JSON object', v_options ->> 'options');
  end if;
  -- A slot has one job of its own: no key may lead it to another job, and nothing may hold it back.
  v_unknown := (select o from jsonb_object_keys(coalesce(v_options -> 'options', '{}')) o
    where o in ('id', 'runAt', 'delay', 'dedupe', 'debounce', 'throttle', 'after', 'onFailure', 'wake') limit 1);
  if v_unknown is not null then
    perform stint.refuse_schedule(p_name, format('options.%s cannot be given to the job of a schedule', v_unknown), v_options ->> 'options');
  end if;

  return jsonb_build_object(
    'name', p_name, 'cron', regexp_replace(btrim(v_options ->> 'cron'), '[[:space:]]+', ' ', 'g'), 'every_ms', round(v_every), 'zone', coalesce(v_options ->> 'zone', 'UTC'),
    'start_at', v_start, 'end_at', v_end, 'jitter_ms', round(v_jitter), 'catch_up', coalesce(v_options ->> 'catchUp', 'last'),
    'overlap', coalesce(v_options ->> 'overlap', 'allow'), 'quiet_hours', stint.checked_quiet_hours(p_name, v_options -> 'quietHours'),
    'job', stint.checked_row(v_options ->> 'kind', coalesce(v_options -> 'payload', 'null'), coalesce(v_options -> 'options', '{}')) - array['id', 'again']);
end
$$;

-- The reason and the actor of a change.
create function stint.check_schedule_change(p_name text, p_reason text, p_actor text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_reason is not null and (length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]') then
    perform stint.refuse_schedule(p_name, 'reason must be a text of 1 to 512 characters without control characters', quote_literal(p_reason));
  end if;
  if length(p_actor) not between 1 and 512 or p_actor ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_schedule(p_name, 'actor must be a text of 1 to 512 characters without control characters', quote_literal(p_actor));
  end if;
end
$$;

-- Checks a change and locks the row of its schedule. All null: there is none.
create function stint.lock_schedule(p_name text, p_reason text, p_actor text) returns stint.schedule
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_schedule stint.schedule;
begin
  perform stint.check_schedule_change(p_name, p_reason, p_actor);
  select * into v_schedule from stint.schedule s where s.name = p_name for update;
  return v_schedule;
end
$$;

-- Make or change a schedule from psql, a trigger or any language, in the transaction you are in:
-- select stint.set_schedule('reminder:42', '{"cron": "0 9 * * *", "zone": "Europe/Berlin", "kind": "remind", "payload": {"user": 42}}')
-- Any worker computes its first slot, from now on. Returns 'created', 'changed' or 'unchanged'.
create function stint.set_schedule(name text, options jsonb, reason text default null, actor text default null) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor   constant text := coalesce(set_schedule.actor, 'sql:' || session_user);
  v_row     jsonb;
  v_outcome text;
begin
  perform stint.check_schedule_change(set_schedule.name, set_schedule.reason, v_actor);
  v_row := stint.checked_schedule(set_schedule.name, set_schedule.options);
  v_outcome := stint.write_schedule(v_row, null, v_actor);
  if v_outcome <> 'unchanged' then
    perform stint.audit_schedule('set-schedule', set_schedule.name, set_schedule.reason, v_actor, stint.shown_schedule(v_row));
    perform stint.wake(array['schedule'], null);
  end if;
  return v_outcome;
end
$$;

-- Remove a schedule that was made at run time. Jobs of slots that have fired stay. False: there is none.
create function stint.remove_schedule(name text, reason text default null, actor text default null) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor    constant text := coalesce(remove_schedule.actor, 'sql:' || session_user);
  v_schedule constant stint.schedule := stint.lock_schedule(remove_schedule.name, remove_schedule.reason, v_actor);
begin
  if v_schedule.name is null then
    return false;
  end if;
  if v_schedule.owner is not null then
    raise exception 'stint: schedule "%" belongs to the code of "%"', v_schedule.name, v_schedule.owner
      using errcode = 'ST005', hint = 'Remove it from that code, or pause it. Nothing was changed.';
  end if;
  delete from stint.schedule s where s.name = v_schedule.name;
  perform stint.audit_schedule('remove-schedule', v_schedule.name, remove_schedule.reason, v_actor);
  return true;
end
$$;

-- False: it is paused, or not paused, already. Null: there is none.
create function stint.set_schedule_paused(p_name text, p_paused boolean, p_reason text, p_actor text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor    constant text := coalesce(p_actor, 'sql:' || session_user);
  v_schedule constant stint.schedule := stint.lock_schedule(p_name, p_reason, v_actor);
  v_now      constant timestamptz := clock_timestamp();
begin
  if v_schedule.name is null then
    return null;
  end if;
  if p_paused = (v_schedule.paused_at is not null) then
    return false;
  end if;
  update stint.schedule s
  set paused_at = case when p_paused then v_now end, next_slot = null, due_at = case when p_paused then null else v_now end,
      -- Slots are computed from updated_at on: those of the paused time are not caught up on.
      updated_at = case when p_paused then s.updated_at else v_now end,
      error = case when p_paused then s.error end, revision = s.revision + 1, updated_by = v_actor
  where s.name = v_schedule.name;
  perform stint.audit_schedule(case when p_paused then 'pause-schedule' else 'resume-schedule' end, v_schedule.name, p_reason, v_actor);
  if not p_paused then
    perform stint.wake(array['schedule'], null);
  end if;
  return true;
end
$$;

-- Pause a schedule, also one of code: no slot fires until it is resumed. False: it is paused already. Null: there is none.
create function stint.pause_schedule(name text, reason text default null, actor text default null) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select stint.set_schedule_paused(pause_schedule.name, true, pause_schedule.reason, pause_schedule.actor)
$$;

-- Resume a paused schedule, from now on: slots of the time in between are not caught up on. False: it is not paused. Null: there is none.
create function stint.resume_schedule(name text, reason text default null, actor text default null) returns boolean
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select stint.set_schedule_paused(resume_schedule.name, false, resume_schedule.reason, resume_schedule.actor)
$$;

-- Enqueue the job of a schedule now, beside its slots. Returns the job's id; null if there is no such schedule. A repeat with the same id
-- enqueues nothing more.
create function stint.run_schedule(name text, reason text default null, actor text default null, id uuid default null) returns uuid
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor    constant text := coalesce(run_schedule.actor, 'sql:' || session_user);
  v_now      constant timestamptz := clock_timestamp();
  v_id       constant uuid := coalesce(run_schedule.id, stint.new_id());
  v_schedule constant stint.schedule := stint.lock_schedule(run_schedule.name, run_schedule.reason, v_actor);
begin
  if v_schedule.name is null then
    return null;
  end if;
  if v_schedule.last_job_id = v_id then
    return v_id;
  end if;
  if v_schedule.overlap <> 'allow' and stint.run_is_live(v_schedule.last_job_id) then
    raise exception 'stint: schedule "%": its job % has not ended, and its overlap is "%"', v_schedule.name, v_schedule.last_job_id, v_schedule.overlap
      using errcode = 'ST005', hint = 'Wait for that job, or cancel it. Nothing was enqueued.';
  end if;
  insert into stint.schedule_slot (schedule, slot, outcome, job_id) values (v_schedule.name, v_now, 'run-now', v_id);
  perform from stint.enqueue_rows(jsonb_build_array(stint.job_of_slot(v_schedule, v_id, v_now, null)), null);
  if v_schedule.overlap = 'queue' then
    update stint.job j set has_follow_ups = true where j.id = v_id;
  end if;
  update stint.schedule s set last_job_id = v_id where s.name = v_schedule.name;
  perform stint.audit_schedule('run-schedule', v_schedule.name, run_schedule.reason, v_actor, jsonb_build_object('job', v_id));
  return v_id;
end
$$;

-- ---- Jobs that plan their next run ---------------------------------------------------------------------

-- The next run of a job, planned by its handler (`again`). Written while the job runs, so that it is not lost if the worker dies.
create table stint.next_run (
  job_id  uuid primary key,
  row     jsonb not null,                          -- as enqueue_rows takes it
  stale   boolean not null default false,          -- the attempt that planned it did not end the job
  made_at timestamptz                              -- set when the next run exists
);
create index next_run_made on stint.next_run (made_at) where made_at is not null;

-- Called by run_follow_ups for jobs that leave `running` or end, in the same statement. A job that succeeded or died has its next run from now on;
-- a success counts only if its own attempt planned it. Cancelling ends the series. The next run keeps the dedupe key of the job: the key's
-- holder is deleted by the same transaction, so that no other job can hold it. Schedules that wait for a job to end become due.
create function stint.follow_up_runs(p_ids uuid[], p_states stint.job_state[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now  timestamptz := clock_timestamp();
  v_next record;
begin
  for v_next in
    select n.job_id, n.row, n.stale, e.state
    from unnest(p_ids, p_states) as e (id, state)
    join stint.next_run n on n.job_id = e.id
    where n.made_at is null
    order by n.job_id
  loop
    if v_next.state not in ('succeeded', 'dead', 'cancelled') then
      update stint.next_run n set stale = true where n.job_id = v_next.job_id;
    elsif v_next.state = 'cancelled' or (v_next.state = 'succeeded' and v_next.stale) then
      delete from stint.next_run n where n.job_id = v_next.job_id;
    else
      perform from stint.enqueue_row(v_next.row, v_now);
      update stint.next_run n set made_at = v_now where n.job_id = v_next.job_id;
    end if;
  end loop;

  -- A row that another session has locked is left to its own time: the outcome of a job waits for no other transaction.
  update stint.schedule s
  set due_at = v_now
  where s.name in (
    select w.name
    from stint.schedule w
    where w.overlap = 'queue' and w.next_slot <= v_now and w.due_at > v_now
      and w.last_job_id in (
        select e.id from unnest(p_ids, p_states) as e (id, state) where e.state in ('succeeded', 'dead', 'cancelled')
        union all
        select m.chain_id from stint.flow_job m where m.job_id = any (p_ids) and m.chain_id is not null)
    for update skip locked);
  if found then
    perform stint.wake(array['schedule'], null);
  end if;
end
$$;

revoke all on all functions in schema stint from public;
