-- Enqueueing from psql, a trigger or any language.
-- oldest code: 1

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

select stint.revoke_new_functions();
