-- Checks of the options and payloads of the SQL API.
-- oldest code: 1

-- The same rules as in the TypeScript client. A violation raises SQLSTATE 22023 with the invalid value.

create function stint.refuse(p_kind text, p_rule text, p_value jsonb) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: kind "%": % (got %)', p_kind, p_rule, left(p_value::text, 200)
    using errcode = '22023', hint = 'Nothing was written.';
end
$$;

-- A short text option, stored and shown unchanged. Null if it was left out.
create function stint.checked_text(p_kind text, p_options jsonb, p_name text, p_max integer default 512) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_value jsonb := p_options -> p_name;
  v_text  text := p_options ->> p_name;
begin
  if v_value is not null and (jsonb_typeof(v_value) <> 'string' or length(v_text) not between 1 and p_max or v_text ~ E'[\\x01-\\x1f]') then
    perform stint.refuse(p_kind, format('%s must be a text of 1 to %s characters without control characters', p_name, p_max), v_value);
  end if;
  return v_text;
end
$$;

create function stint.checked_integer(p_kind text, p_options jsonb, p_name text, p_min integer, p_max integer) returns integer
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_value  jsonb := p_options -> p_name;
  v_number numeric;
begin
  if jsonb_typeof(v_value) = 'number' then
    v_number := (v_value #>> '{}')::numeric;
  end if;
  if v_value is not null and (v_number is null or v_number <> trunc(v_number) or v_number not between p_min and p_max) then
    perform stint.refuse(p_kind, format('%s must be an integer from %s to %s', p_name, p_min, p_max), v_value);
  end if;
  return v_number;
end
$$;

-- Converts "30s", "1h30m", "2 min 4 s" or a number of milliseconds to milliseconds. Null: the value is not a duration.
create function stint.to_ms(p_value jsonb) returns numeric
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_part text[];
begin
  if jsonb_typeof(p_value) = 'number' then
    return (p_value #>> '{}')::numeric;
  elsif jsonb_typeof(p_value) = 'string' and p_value #>> '{}' ~ '[0-9]' then
    -- Each unit at most once and the larger first, so that "30m1h" and "5m5m" are refused as mistakes.
    -- No pattern here has a backslash: its meaning depends on standard_conforming_strings of the session.
    v_part := regexp_match(p_value #>> '{}',
      '^[[:space:]]*(?:([0-9]{1,15}(?:[.][0-9]{1,9})?) ?d)? ?(?:([0-9]{1,15}(?:[.][0-9]{1,9})?) ?h)? ?(?:([0-9]{1,15}(?:[.][0-9]{1,9})?) ?(?:min|m))? ?'
      || '(?:([0-9]{1,15}(?:[.][0-9]{1,9})?) ?s)? ?(?:([0-9]{1,15}(?:[.][0-9]{1,9})?) ?ms)?[[:space:]]*$');
    if v_part is not null then
      return coalesce(v_part[1]::numeric, 0) * 86400000 + coalesce(v_part[2]::numeric, 0) * 3600000
        + coalesce(v_part[3]::numeric, 0) * 60000 + coalesce(v_part[4]::numeric, 0) * 1000 + coalesce(v_part[5]::numeric, 0);
    end if;
  end if;
  return null;
end
$$;

-- A duration as whole milliseconds. Null if it was left out.
create function stint.checked_ms(
  p_kind text, p_options jsonb, p_name text, p_min bigint default 0, p_max bigint default 3153600000000
) returns bigint
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_value jsonb := p_options -> p_name;
  v_ms    numeric;
begin
  if v_value is null then
    return null;
  end if;
  v_ms := stint.to_ms(v_value);
  if v_ms is null or v_ms < 0 or round(v_ms) not between p_min and p_max then
    perform stint.refuse(p_kind,
      format('%s must be a length of time such as "30s", "1h30m" or milliseconds, from %s ms to %s ms', p_name, p_min, p_max), v_value);
  end if;
  return round(v_ms);
end
$$;

-- A time with its zone. Without a zone, its meaning would depend on the time zone of the session.
create function stint.checked_time(p_kind text, p_options jsonb, p_name text) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text := p_options ->> p_name;
  v_at   timestamptz;
  v_rule constant text := p_name || ' must be a time with its zone from 1970 to 9999, such as "2030-01-31T12:00:00Z"';
begin
  if v_text is null then
    return null;
  end if;
  if v_text !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)? ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' then
    perform stint.refuse(p_kind, v_rule, p_options -> p_name);
  end if;
  begin
    v_at := v_text::timestamptz;
  exception
    -- Invalid times: 30 February, a zone of +99:00, a year outside the range of Postgres.
    when data_exception then
      v_at := null;
  end;
  if v_at is null or v_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999Z' then
    perform stint.refuse(p_kind, v_rule, p_options -> p_name);
  end if;
  return v_at;
end
$$;

-- The first number that JavaScript would read as a different one. Its numbers are doubles: a number is exact if it has at most 15
-- significant digits, or if its nearest double is written the same way.
create function stint.inexact_number(p_value jsonb) returns numeric
language sql stable
set search_path = pg_catalog, pg_temp
set extra_float_digits = 1
as $$
  select n.number
  from (
    select (found.value #>> '{}')::numeric as number
    from jsonb_path_query(p_value, 'strict $.** ? (@.type() == "number")') found (value)
  ) n
  where n.number <> 0
    and case
      when abs(n.number) between 2.2250738585072014e-308 and 1.7976931348623157e308
        then length(trim('0' from translate(n.number::text, '.-', ''))) > 15 and n.number::float8::text::numeric <> n.number
      else true
    end
  limit 1
$$;

-- Checks a payload or meta: its size, at most 64 nested objects and arrays, and only numbers that JavaScript reads exactly.
create function stint.check_json(p_kind text, p_what text, p_value jsonb, p_bytes integer) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text   constant text := p_value::text;
  v_number numeric;
begin
  if octet_length(v_text) > p_bytes then
    raise exception 'stint: kind "%": the % has % bytes of JSON, the limit is %', p_kind, p_what, octet_length(v_text), p_bytes
      using errcode = '22023', hint = 'Store the data elsewhere and enqueue its address.';
  end if;
  -- Numbers of up to 15 digits are always exact, so for nearly every payload this one pattern match is enough.
  if v_text ~ '[0-9][0-9.]{15}' then
    v_number := stint.inexact_number(p_value);
    if v_number is not null then
      raise exception 'stint: kind "%": the % has the number %, which JavaScript cannot hold exactly', p_kind, p_what, left(v_number::text, 60)
        using errcode = '22023', hint = 'Write it as a text, or round it.';
    end if;
  end if;
  if jsonb_path_exists(p_value, 'strict $.**{64 to last} ? (@.type() == "array" || @.type() == "object")') then
    raise exception 'stint: kind "%": the % is nested deeper than 64 levels', p_kind, p_what
      using errcode = '22023', hint = 'Flatten it.';
  end if;
end
$$;

-- The fields of a row for `dedupe`, `debounce` and `throttle`: how several enqueues of one key become fewer jobs. At most one of these is given.
create function stint.checked_shaping(p_kind text, p_options jsonb) returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name    text;
  v_given   jsonb;
  v_allowed text[];
  v_until   text;
  v_replace text;
  v_row     jsonb;
begin
  if (p_options ? 'dedupe')::integer + (p_options ? 'debounce')::integer + (p_options ? 'throttle')::integer > 1 then
    perform stint.refuse(p_kind, 'give one of dedupe, debounce and throttle', p_options);
  end if;
  v_name := case when p_options ? 'dedupe' then 'dedupe' when p_options ? 'debounce' then 'debounce' when p_options ? 'throttle' then 'throttle' end;
  if v_name is null then
    return '{}';
  end if;
  v_given := p_options -> v_name;
  v_allowed := case v_name
    when 'dedupe' then array['key', 'until', 'replace'] when 'debounce' then array['key', 'wait', 'maxWait'] else array['key', 'every'] end;
  if jsonb_typeof(v_given) <> 'object' or v_given - v_allowed <> '{}' then
    perform stint.refuse(p_kind, case v_name
      when 'dedupe' then 'dedupe must be {"key": text, "until": "started", "finished" or a length of time, "replace": true, "payload" or "runAt"}'
      when 'debounce' then 'debounce must be {"key": text, "wait": a length of time, "maxWait": a length of time}'
      else 'throttle must be {"key": text, "every": a length of time}' end, v_given);
  end if;
  v_given := jsonb_strip_nulls(v_given);
  v_row := jsonb_build_object('dedupe_key', coalesce(stint.checked_text(p_kind, v_given, 'key'), stint.checked_text(p_kind, p_options, 'key')));
  if v_row -> 'dedupe_key' = 'null' then
    perform stint.refuse(p_kind, v_name || ' needs a key, its own or the job''s', v_given);
  end if;

  if v_name = 'throttle' then
    if not v_given ? 'every' then
      perform stint.refuse(p_kind, 'throttle needs every, a length of time', v_given);
    end if;
    return v_row || jsonb_build_object('dedupe_ms', stint.checked_ms(p_kind, v_given, 'every', 1));
  end if;

  if v_name = 'debounce' then
    if not v_given ? 'wait' then
      perform stint.refuse(p_kind, 'debounce needs wait, a length of time', v_given);
    end if;
    if p_options ? 'runAt' or p_options ? 'delay' then
      perform stint.refuse(p_kind, 'debounce sets the run time itself: leave out runAt and delay', p_options);
    end if;
    v_row := v_row || jsonb_strip_nulls(jsonb_build_object(
      'dedupe_until', 'finished', 'replace', 'both',
      'delay_ms', stint.checked_ms(p_kind, v_given, 'wait', 1), 'max_wait_ms', stint.checked_ms(p_kind, v_given, 'maxWait', 1)));
    if (v_row ->> 'max_wait_ms')::bigint < (v_row ->> 'delay_ms')::bigint then
      perform stint.refuse(p_kind, 'maxWait must not be shorter than wait', v_given);
    end if;
    return v_row;
  end if;

  v_until := case when coalesce(v_given -> 'until', '"finished"') in ('"started"', '"finished"') then coalesce(v_given ->> 'until', 'finished') end;
  if coalesce(v_given -> 'replace', 'false') not in ('true', 'false', '"payload"', '"runAt"') then
    perform stint.refuse(p_kind, 'replace must be true, "payload" or "runAt"', v_given -> 'replace');
  end if;
  v_replace := case v_given ->> 'replace'
    when 'true' then case when p_options ? 'runAt' or p_options ? 'delay' then 'both' else 'payload' end
    when 'payload' then 'payload' when 'runAt' then 'run_at' end;
  if v_replace is not null and v_until is null then
    perform stint.refuse(p_kind, 'replace needs until "started" or "finished": a key held for a time may belong to a job that has ended', v_given);
  end if;
  if v_replace = 'run_at' and not (p_options ? 'runAt' or p_options ? 'delay') then
    perform stint.refuse(p_kind, 'replace of "runAt" needs the new time: give runAt or delay', v_given);
  end if;
  return v_row || jsonb_strip_nulls(jsonb_build_object(
    'dedupe_until', v_until, 'replace', v_replace,
    'dedupe_ms', case when v_until is null then stint.checked_ms(p_kind, v_given, 'until', 1) end));
end
$$;

select stint.revoke_new_functions();
