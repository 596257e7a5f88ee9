-- Writing schedules: declared in code, or changed at run time.
-- oldest code: 1

create function stint.same_times(p_one stint.schedule, p_other stint.schedule) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (p_one.cron, p_one.every_ms, p_one.zone, p_one.start_at, p_one.end_at, p_one.jitter_ms)
    is not distinct from (p_other.cron, p_other.every_ms, p_other.zone, p_other.start_at, p_other.end_at, p_other.jitter_ms)
$$;

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
  -- Compared within the update: another session may have changed the times since they were read, and their slot must not stay.
  update stint.schedule s
  set cron = v_given.cron, every_ms = v_given.every_ms, zone = v_given.zone, start_at = v_given.start_at, end_at = v_given.end_at,
      jitter_ms = v_given.jitter_ms, catch_up = v_given.catch_up, overlap = v_given.overlap, quiet_hours = nullif(v_given.quiet_hours, 'null'),
      job = v_given.job, revision = s.revision + 1, error = null, updated_by = p_actor,
      next_slot = case when s.paused_at is not null then null when stint.same_times(s, v_given) then s.next_slot else v_given.next_slot end,
      due_at = case when s.paused_at is not null then null when stint.same_times(s, v_given) then coalesce(s.due_at, v_given.due_at)
        else v_given.due_at end,
      updated_at = case when stint.same_times(s, v_given) then s.updated_at else clock_timestamp() end
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

-- Writes schedules that are made at run time: all of them, or none. A repeat of the same call changes nothing. A row with
-- `create` is refused if it would change a schedule. Returns how many changed.
create function stint.put_schedules(p_rows jsonb, p_actor text, p_reason text) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row     jsonb;
  v_outcome text;
  v_changed integer := 0;
begin
  for v_row in select r.value from jsonb_array_elements(p_rows) r order by (r.value ->> 'name') collate "C" loop
    v_outcome := stint.write_schedule(v_row - 'create', null, p_actor);
    if v_outcome = 'changed' and v_row ? 'create' then
      raise exception 'stint: schedule "%" exists already', v_row ->> 'name'
        using errcode = 'ST005', hint = 'Choose another name. Nothing was changed.';
    end if;
    if v_outcome <> 'unchanged' then
      v_changed := v_changed + 1;
      perform stint.audit_schedule('set-schedule', v_row ->> 'name', p_reason, p_actor, stint.shown_schedule(v_row - 'create'));
    end if;
  end loop;
  return v_changed;
end
$$;

select stint.revoke_new_functions();
