-- Enqueueing and queue settings from psql, a trigger or any language.
-- oldest code: 1

-- ---- The SQL API -----------------------------------------------------------------------------------

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

-- Turns kind, payload and options into a row for enqueue_rows, or raises an error that names the violated rule.
create function stint.checked_row(p_kind text, p_payload jsonb, p_options jsonb) returns jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name    constant text := '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$';
  v_allowed constant text[] := array[
    'id', 'queue', 'runAt', 'delay', 'expiresAt', 'expiresIn', 'priority', 'attempts', 'key', 'dedupe', 'debounce', 'throttle', 'tenant', 'tags', 'meta', 'timeout', 'lease', 'maxCrashes',
    'quietHours', 'after', 'onFailure', 'limits', 'order', 'wake'];
  v_options jsonb := '{}';
  v_unknown text;
  v_kind    stint.kind;
  v_key     text;
  v_hours   jsonb;
begin
  if p_kind is null or p_kind !~ v_name then
    raise exception 'stint: kind % is not a name', coalesce(quote_literal(left(p_kind, 200)), 'null')
      using errcode = '22023',
      hint = 'A name has 1 to 128 characters from A-Z, a-z, 0-9 and . _ : / -, beginning with a letter or a digit.';
  end if;
  if p_payload is null then
    raise exception 'stint: kind "%": the payload is SQL null', p_kind
      using errcode = '22023', hint = 'Write ''null''::jsonb for an empty one.';
  end if;
  perform stint.check_json(p_kind, 'payload', p_payload, 1048576);

  if jsonb_typeof(p_options) <> 'object' then
    perform stint.refuse(p_kind, 'options must be a JSON object', p_options);
  end if;
  -- A null option counts as left out, so that callers may build options from nullable columns.
  select coalesce(jsonb_object_agg(o.key, o.value), '{}') into v_options
  from jsonb_each(p_options) o where o.value <> 'null';
  select o into v_unknown from jsonb_object_keys(p_options) o where o <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: kind "%": unknown option "%"', p_kind, left(v_unknown, 200)
      using errcode = '22023', hint = 'Options are: ' || array_to_string(v_allowed, ', ') || '.';
  end if;

  select * into v_kind from stint.kind k where k.name = p_kind;
  if not found and not v_options ? 'queue' then
    raise exception 'stint: no worker here has ever served kind "%"', p_kind
      using errcode = '22023',
      hint = 'Check the spelling (known: '
        || coalesce((select string_agg(n.name, ', ') from (select name from stint.kind order by name limit 20) n), 'none')
        || '), start a worker that serves it, or name its queue in options.';
  end if;
  if v_options ? 'queue' and (jsonb_typeof(v_options -> 'queue') <> 'string' or v_options ->> 'queue' !~ v_name) then
    perform stint.refuse(p_kind, 'queue must be a name: letters, digits and . _ : / - only, at most 128', v_options -> 'queue');
  end if;
  if v_options ? 'id' and v_options ->> 'id' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    perform stint.refuse(p_kind, 'id must be a UUID', v_options -> 'id');
  end if;
  if v_options ? 'wake' and jsonb_typeof(v_options -> 'wake') <> 'boolean' then
    perform stint.refuse(p_kind, 'wake must be true or false', v_options -> 'wake');
  end if;
  if v_options ? 'runAt' and v_options ? 'delay' then
    perform stint.refuse(p_kind, 'give runAt or delay, not both', v_options);
  end if;
  if v_options ? 'expiresAt' and v_options ? 'expiresIn' then
    perform stint.refuse(p_kind, 'give expiresAt or expiresIn, not both', v_options);
  end if;
  if stint.checked_time(p_kind, v_options, 'expiresAt') <= stint.checked_time(p_kind, v_options, 'runAt')
    or stint.checked_ms(p_kind, v_options, 'expiresIn', 1) <= stint.checked_ms(p_kind, v_options, 'delay')
  then
    perform stint.refuse(p_kind, 'the job would expire before it may run', v_options);
  end if;

  if v_options ? 'tags' then
    if jsonb_typeof(v_options -> 'tags') <> 'array' then
      perform stint.refuse(p_kind, 'tags must be an array of at most 32 texts', v_options -> 'tags');
    elsif jsonb_array_length(v_options -> 'tags') > 32 then
      perform stint.refuse(p_kind, 'tags must be an array of at most 32 texts', v_options -> 'tags');
    end if;
    perform stint.checked_text(p_kind, jsonb_build_object('tags', t.value), 'tags', 128)
    from jsonb_array_elements(v_options -> 'tags') t;
  end if;
  if v_options ? 'meta' then
    if jsonb_typeof(v_options -> 'meta') <> 'object' then
      perform stint.refuse(p_kind, 'meta must be a JSON object', v_options -> 'meta');
    end if;
    perform stint.check_json(p_kind, 'meta', v_options -> 'meta', 16384);
  end if;

  if v_options ? 'after' then
    if jsonb_typeof(v_options -> 'after') <> 'array' then
      perform stint.refuse(p_kind, 'after must be an array of 1 to 10000 UUIDs of jobs', v_options -> 'after');
    elsif jsonb_array_length(v_options -> 'after') not between 1 and 10000 or exists (
      select from jsonb_array_elements(v_options -> 'after') a
      where jsonb_typeof(a.value) <> 'string' or a.value #>> '{}' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
    then
      perform stint.refuse(p_kind, 'after must be an array of 1 to 10000 UUIDs of jobs', v_options -> 'after');
    end if;
  end if;
  if v_options ? 'onFailure' and (not v_options ? 'after' or v_options -> 'onFailure' not in ('"park"', '"cancel"', '"run"')) then
    perform stint.refuse(p_kind, 'onFailure must be "park", "cancel" or "run", beside after', v_options -> 'onFailure');
  end if;

  if v_options ? 'quietHours' then
    begin
      v_hours := stint.checked_quiet_hours(p_kind, v_options -> 'quietHours');
    exception
      when invalid_parameter_value then
        perform stint.refuse(p_kind,
          'quietHours must be {"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"} with two different times and the IANA name of a zone',
          v_options -> 'quietHours');
    end;
  end if;

  v_key := stint.checked_text(p_kind, v_options, 'key');

  return jsonb_strip_nulls(jsonb_build_object(
    'id', coalesce((v_options ->> 'id')::uuid, stint.new_id()),
    'again', case when v_options ? 'id' then true end,
    'kind', p_kind,
    'queue', coalesce(v_options ->> 'queue', v_kind.queue),
    'priority', coalesce(stint.checked_integer(p_kind, v_options, 'priority', -32768, 32767), v_kind.priority),
    'run_at', stint.checked_time(p_kind, v_options, 'runAt'),
    'delay_ms', stint.checked_ms(p_kind, v_options, 'delay'),
    'expires_at', stint.checked_time(p_kind, v_options, 'expiresAt'),
    'expires_ms', stint.checked_ms(p_kind, v_options, 'expiresIn', 1),
    'max_attempts', stint.checked_integer(p_kind, v_options, 'attempts', 1, 1000),
    'max_crashes', stint.checked_integer(p_kind, v_options, 'maxCrashes', 1, 100),
    'timeout_ms', stint.checked_ms(p_kind, v_options, 'timeout', 1),
    'lease_ms', stint.checked_ms(p_kind, v_options, 'lease', 1000, 86400000),
    'key', v_key,
    'tenant', stint.checked_text(p_kind, v_options, 'tenant'),
    'tags', v_options -> 'tags',
    'member', case when v_options ? 'after' then
      jsonb_build_object('after', v_options -> 'after', 'on_failure', v_options ->> 'onFailure') end,
    'wake', v_options -> 'wake'
  ))
  || stint.checked_shaping(p_kind, v_options)
  || stint.checked_limits(p_kind, v_options)
  -- Added last: jsonb_strip_nulls would also remove nulls inside the caller's payload and meta.
  || case when v_options ?| array['meta', 'quietHours'] then jsonb_build_object('meta', coalesce(v_options -> 'meta', '{}')
    || case when v_options ? 'quietHours' then jsonb_build_object('quietHours', v_hours) else '{}' end)
    else '{}' end
  || jsonb_build_object('payload', p_payload);
end
$$;

-- Enqueue one job from psql, a trigger or any language, in the transaction you are in.
create function stint.enqueue(kind text, payload jsonb, options jsonb default '{}') returns uuid
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.id from stint.enqueue_rows(jsonb_build_array(stint.checked_row(kind, payload, coalesce(options, '{}'))), null) e
$$;

-- The same, and returns the status: "created", "existing", "replaced" or "deferred" (see enqueue_row).
create function stint.enqueue_one(kind text, payload jsonb, options jsonb default '{}') returns table (id uuid, status text)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select e.id, e.status from stint.enqueue_rows(jsonb_build_array(stint.checked_row(kind, payload, coalesce(options, '{}'))), null) e
$$;

-- Enqueue many: an array of {"kind": …, "payload": …, "options": {…}}. All of them, or none.
create function stint.enqueue_many(jobs jsonb)
returns table (ordinal integer, id uuid, created boolean, status text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_rows jsonb := '[]';
  v_job  jsonb;
begin
  if jobs is null or jsonb_typeof(jobs) <> 'array' then
    raise exception 'stint: jobs must be an array of {"kind": …, "payload": …, "options": {…}}' using errcode = '22023';
  end if;
  select coalesce(jsonb_agg(j.value), '[]') into v_job
  from jsonb_array_elements(jobs) j
  where jsonb_typeof(j.value) <> 'object' or j.value - array['kind', 'payload', 'options'] <> '{}';
  if v_job <> '[]' then
    raise exception 'stint: each of jobs must be {"kind": …, "payload": …, "options": {…}} and nothing else, got %', left(v_job ->> 0, 200)
      using errcode = '22023';
  end if;

  select coalesce(jsonb_agg(
    stint.checked_row(j.value ->> 'kind', coalesce(j.value -> 'payload', 'null'), coalesce(nullif(j.value -> 'options', 'null'), '{}'))
    order by j.ordinality), '[]') into v_rows
  from jsonb_array_elements(jobs) with ordinality j;
  return query
    select e.ordinal, e.id, e.created, e.status from stint.enqueue_rows(v_rows, null) e order by e.ordinal;
end
$$;

-- ---- Queue settings --------------------------------------------------------------------------------

create function stint.refuse_setting(p_queue text, p_rule text, p_value text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: queue %: % (got %)', coalesce(quote_literal(left(p_queue, 200)), 'null'), p_rule, coalesce(left(p_value, 200), 'null')
    using errcode = '22023', hint = 'Nothing was changed.';
end
$$;

-- The name or pattern, the reason and the actor of a change.
create function stint.check_queue_change(p_queue text, p_reason text, p_actor text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_queue is null or p_queue !~ '^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$' or strpos(p_queue, '**') > 0 then
    perform stint.refuse_setting(p_queue,
      'must be a name or a pattern of 1 to 128 characters from A-Z, a-z, 0-9, . _ : / - and single *, beginning with a letter, a digit or *',
      quote_literal(p_queue));
  end if;
  if p_reason is null or length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_setting(p_queue, 'reason must be a text of 1 to 512 characters without control characters', quote_literal(p_reason));
  end if;
  if length(p_actor) not between 1 and 512 or p_actor ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_setting(p_queue, 'actor must be a text of 1 to 512 characters without control characters', quote_literal(p_actor));
  end if;
end
$$;

-- Change settings of a queue, or of all queues that a pattern matches: {"targetAge": "30s", "admission": {"maxDepth": 10000}}. A setting that is left out stays as it is; null
-- returns it to the value that code declared. The change is audited. With an `id`, a repeat of the same call changes nothing, so a
-- caller that lost the result may send it again.
create function stint.set_queue(queue text, settings jsonb, reason text, actor text default null, id uuid default null)
returns stint.queue
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_allowed constant text[] := array['targetAge', 'admission'];
  v_actor   constant text := coalesce(set_queue.actor, 'sql:' || session_user);
  v_unknown text;
  v_ms      numeric;
  v_admission jsonb;
  v_before  stint.queue;
  v_after   stint.queue;
begin
  perform stint.check_queue_change(set_queue.queue, set_queue.reason, v_actor);
  if settings is null or jsonb_typeof(settings) <> 'object' or settings = '{}' then
    perform stint.refuse_setting(set_queue.queue, 'settings must be a JSON object such as {"targetAge": "30s"}', settings::text);
  end if;
  select s into v_unknown from jsonb_object_keys(settings) s where s <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: queue "%": unknown setting "%"', set_queue.queue, left(v_unknown, 200)
      using errcode = '22023', hint = 'Settings are: ' || array_to_string(v_allowed, ', ') || '. Nothing was changed.';
  end if;
  if settings -> 'targetAge' <> 'null' then
    v_ms := stint.to_ms(settings -> 'targetAge');
    if v_ms is null or round(v_ms) not between 1 and 3153600000000 then
      perform stint.refuse_setting(set_queue.queue,
        'targetAge must be a length of time such as "30s", "1h30m" or milliseconds, from 1 ms to 36500 days, or null', (settings -> 'targetAge')::text);
    end if;
  end if;

  v_admission := stint.checked_admission(set_queue.queue, settings -> 'admission');

  -- The lock makes concurrent changes wait for each other, so that each is audited with the value it replaced.
  insert into stint.queue (name, updated_by) values (set_queue.queue, v_actor) on conflict (name) do nothing;
  select * into v_before from stint.queue q where q.name = set_queue.queue for update;
  if exists (select from stint.audit a where a.id = set_queue.id) then
    return v_before;
  end if;
  update stint.queue q
  set
    target_age_ms = case when settings ? 'targetAge' then coalesce(round(v_ms), q.declared_target_age_ms) else q.target_age_ms end,
    admission = case when settings ? 'admission' then coalesce(v_admission, q.declared_admission) else q.admission end,
    updated_at = clock_timestamp(), updated_by = v_actor
  where q.name = set_queue.queue
  returning * into v_after;
  insert into stint.audit (id, actor, action, reason, queue, change)
  values (
    coalesce(set_queue.id, stint.new_id()), v_actor, 'set-queue', set_queue.reason, set_queue.queue,
    case when settings ? 'targetAge'
      then jsonb_build_object('targetAgeMs', jsonb_build_object('from', v_before.target_age_ms, 'to', v_after.target_age_ms)) else '{}' end
    || case when settings ? 'admission'
      then jsonb_build_object('admission', jsonb_build_object('from', v_before.admission, 'to', v_after.admission)) else '{}' end
  );
  return v_after;
end
$$;

-- Delete the settings of a queue or pattern, also the declared ones: for names that code no longer declares. A worker whose code still
-- declares them writes them again when it starts. False: there were none.
create function stint.forget_queue(queue text, reason text, actor text default null, id uuid default null)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_actor  constant text := coalesce(forget_queue.actor, 'sql:' || session_user);
  v_before stint.queue;
begin
  perform stint.check_queue_change(forget_queue.queue, forget_queue.reason, v_actor);
  if exists (select from stint.audit a where a.id = forget_queue.id) then
    return true;
  end if;
  delete from stint.queue q where q.name = forget_queue.queue returning * into v_before;
  if not found then
    return false;
  end if;
  insert into stint.audit (id, actor, action, reason, queue, change)
  values (
    coalesce(forget_queue.id, stint.new_id()), v_actor, 'forget-queue', forget_queue.reason, forget_queue.queue,
    jsonb_build_object('targetAgeMs', jsonb_build_object('from', v_before.target_age_ms, 'to', null))
    || case when v_before.admission is null then '{}'
      else jsonb_build_object('admission', jsonb_build_object('from', v_before.admission, 'to', null)) end
  );
  return true;
end
$$;
