-- Schedules from psql, a trigger or any language: checks, changes, pauses, a run now.
-- oldest code: 1

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

-- Enqueue the job of a schedule now, in addition to its slots. Returns the job's id; null if there is no such schedule. A repeat with the same id
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
  if exists (select from stint.schedule_slot s where s.schedule = v_schedule.name and s.job_id = run_schedule.id) then
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

select stint.revoke_new_functions();
