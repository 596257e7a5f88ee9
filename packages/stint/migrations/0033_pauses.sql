-- Pauses: a queue, a kind, a tenant, a key or a dependency whose jobs do not start. Enqueueing continues, and running jobs finish.
-- oldest code: 1

-- A row is in force until its `until`. Workers skip paused queues and kinds, and kinds that use a paused dependency, when they claim, so those jobs stay ready. Jobs of a paused tenant or key
-- are parked when a worker meets them.
create table stint.pause (
  scope     text not null,
  name      text collate "C" not null,             -- of queues and kinds also a pattern, such as tenant-*
  until     timestamptz,                           -- null: until it is resumed; past: over, and its parked jobs are lifted
  reason    text not null,
  paused_by text not null,
  paused_at timestamptz not null default clock_timestamp(),
  primary key (scope, name),
  constraint pause_scope_is_known check (scope in ('queue', 'kind', 'tenant', 'key', 'dependency')),
  constraint pause_names_have_1_to_512_characters check (length(name) between 1 and 512)
);
create index pause_until on stint.pause (until);   -- the idle check reads its head

-- Jobs that are parked because their tenant or key is paused, by pause. The foreign key keeps a pause until its jobs are lifted.
create table stint.paused_job (
  job_id uuid primary key,
  scope  text not null,
  name   text collate "C" not null,
  foreign key (scope, name) references stint.pause (scope, name)
);
create index paused_job_pause on stint.paused_job (scope, name);

create function stint.refuse_pause(p_scope text, p_rule text, p_value text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: pause of a %: % (got %)', coalesce(left(p_scope, 200), 'null'), p_rule, coalesce(left(p_value, 200), 'null')
    using errcode = '22023', hint = 'Nothing was changed.';
end
$$;

create function stint.check_pause(p_scope text, p_name text, p_reason text, p_actor text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_scope is null or p_scope not in ('queue', 'kind', 'tenant', 'key', 'dependency') then
    perform stint.refuse_pause(p_scope, 'the scope must be queue, kind, tenant, key or dependency', quote_literal(p_scope));
  end if;
  if p_scope in ('queue', 'kind') and (p_name is null or p_name !~ '^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$' or strpos(p_name, '**') > 0) then
    perform stint.refuse_pause(p_scope,
      'the name must be a name or a pattern of 1 to 128 characters from A-Z, a-z, 0-9, . _ : / - and single *, beginning with a letter, a digit or *',
      quote_literal(p_name));
  end if;
  if p_scope = 'dependency' and (p_name is null or p_name !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,115}$') then
    perform stint.refuse_pause(p_scope,
      'the name must be 1 to 116 characters from A-Z, a-z, 0-9 and . _ : / -, beginning with a letter or a digit', quote_literal(p_name));
  end if;
  if p_name is null or length(p_name) not between 1 and 512 or p_name ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_pause(p_scope, 'the name must be a text of 1 to 512 characters without control characters', quote_literal(p_name));
  end if;
  if p_reason is null or length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_pause(p_scope, 'reason must be a text of 1 to 512 characters without control characters', quote_literal(p_reason));
  end if;
  if length(p_actor) not between 1 and 512 or p_actor ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_pause(p_scope, 'actor must be a text of 1 to 512 characters without control characters', quote_literal(p_actor));
  end if;
end
$$;

-- The audit entry of a pause, and the hint that makes workers read the pauses. Every worker gets the hint, also those that ask for no wakes. A full
-- notification queue would fail the commit, and a NOTIFY would fail a PREPARE TRANSACTION: workers then find out by their next poll.
create function stint.note_pause(p_id uuid, p_actor text, p_action text, p_scope text, p_name text, p_reason text, p_change jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.audit (id, actor, action, reason, queue, subject, change)
  values (
    coalesce(p_id, stint.new_id()), p_actor, p_action, p_reason, case when p_scope = 'queue' then p_name end,
    case when p_scope <> 'queue' then p_scope || ':' || p_name end, p_change);
  if pg_notification_queue_usage() < 0.5 and current_setting('max_prepared_transactions') = '0' then
    perform pg_notify(stint.wake_channel(), 'paused');
  end if;
end
$$;

-- Start no further job of a queue, a kind, a tenant, a key or a dependency, until `until` or until resume(). Pausing again replaces the time and the reason. With an
-- `id`, a repeat of the same call changes nothing.
create function stint.pause(
  scope text, name text, reason text, until timestamptz default null, actor text default null, id uuid default null
) returns stint.pause
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_actor  constant text := coalesce(pause.actor, 'sql:' || session_user);
  v_before stint.pause;
  v_after  stint.pause;
begin
  perform stint.check_pause(pause.scope, pause.name, pause.reason, v_actor);
  if pause.until <= clock_timestamp() or pause.until >= '10000-01-01 00:00:00+00' then
    perform stint.refuse_pause(pause.scope, 'until must be a later time, before the year 10000', pause.until::text);
  end if;
  -- The lock makes concurrent changes wait for each other, so that each is audited with what it replaced.
  select p.* into v_before from stint.pause p where p.scope = pause.scope and p.name = pause.name for update;
  if exists (select from stint.audit a where a.id = pause.id) then
    return v_before;
  end if;
  insert into stint.pause as p (scope, name, until, reason, paused_by)
  values (pause.scope, pause.name, pause.until, pause.reason, v_actor)
  on conflict (scope, name) do update
    set until = excluded.until, reason = excluded.reason, paused_by = excluded.paused_by,
        paused_at = case when p.until <= clock_timestamp() then clock_timestamp() else p.paused_at end
  returning p.* into v_after;
  perform stint.note_pause(pause.id, v_actor, 'pause', pause.scope, pause.name, pause.reason,
    jsonb_build_object('until', jsonb_build_object('from', v_before.until, 'to', v_after.until)));
  return v_after;
end
$$;

-- Let the jobs of a pause start again. False: it was not paused.
create function stint.resume(scope text, name text, reason text, actor text default null, id uuid default null) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_actor  constant text := coalesce(resume.actor, 'sql:' || session_user);
  v_before stint.pause;
begin
  perform stint.check_pause(resume.scope, resume.name, resume.reason, v_actor);
  -- Waits for workers that are parking jobs of this pause: all of these jobs are lifted then.
  select p.* into v_before from stint.pause p where p.scope = resume.scope and p.name = resume.name for update;
  if exists (select from stint.audit a where a.id = resume.id) then
    return true;
  end if;
  if v_before.scope is null or v_before.until <= clock_timestamp() then
    return false;
  end if;
  -- Not deleted here: any number of jobs may be parked. Upkeep lifts them in batches, and deletes the row after the last.
  if resume.scope in ('queue', 'kind', 'dependency') then
    delete from stint.pause p where p.scope = resume.scope and p.name = resume.name;
  else
    update stint.pause p set until = clock_timestamp() where p.scope = resume.scope and p.name = resume.name;
  end if;
  perform stint.note_pause(resume.id, v_actor, 'resume', resume.scope, resume.name, resume.reason,
    jsonb_build_object('until', jsonb_build_object('from', v_before.until, 'to', null)));
  return true;
end
$$;

-- For upkeep: makes at most `p_limit` jobs of pauses that are over ready again, and deletes pauses without parked jobs. `more`: some are left. A job that
-- another session has locked holds up no other pause.
create function stint.lift_paused(p_limit integer, out queues text[], out more boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_over stint.pause;
  v_ids  uuid[];
  v_later boolean;
  v_left  integer := p_limit;
begin
  queues := '{}';
  more := false;
  for v_over in
    -- A worker that parks a job of this pause holds a share lock: the next statement sees that job.
    select p.* from stint.pause p where p.until <= clock_timestamp() order by p.scope, p.name limit 100 for update skip locked
  loop
    -- Rows of jobs that another session has locked stay for the next call.
    select array_agg(t.job_id) into v_ids from (
      select w.job_id from stint.paused_job w where w.scope = v_over.scope and w.name = v_over.name limit v_left
    ) t;
    with free as materialized (
      select j.id from stint.job j where j.id = any (v_ids) for update skip locked
    ), lifted as (
      update stint.job j
      -- A debounce may have moved its run time while it was parked.
      set state = case when j.run_at > clock_timestamp() then 'scheduled'::stint.job_state else 'ready' end, park_reason = null
      from free
      where j.id = free.id and j.state = 'parked' and j.park_reason = 'paused'
      returning j.queue, j.kind, j.priority, j.state
    ), tallied as (
      insert into stint.tally_delta (queue, kind, priority, scheduled, parked)
      select l.queue, l.kind, l.priority, count(*) filter (where l.state = 'scheduled'), - count(*)
      from lifted l group by l.queue, l.kind, l.priority
    ), forgotten as (
      delete from stint.paused_job w
      -- Also after a wait for its lock: a worker may have parked the job for another pause since.
      where w.job_id = any (v_ids) and w.scope = v_over.scope and w.name = v_over.name
        and (w.job_id in (select free.id from free) or not exists (select from stint.job j where j.id = w.job_id))
    )
    select queues || coalesce(array_agg(distinct l.queue), '{}'), coalesce(bool_or(l.state = 'scheduled'), false) into queues, v_later from lifted l;
    if v_later then
      perform stint.wake(array['due'], null);
    end if;
    if exists (select from stint.paused_job w where w.scope = v_over.scope and w.name = v_over.name) then
      more := true;
    else
      delete from stint.pause p where p.scope = v_over.scope and p.name = v_over.name;
    end if;
    v_left := v_left - coalesce(cardinality(v_ids), 0);
    exit when v_left <= 0;
  end loop;
  more := more or exists (select from stint.pause p where p.until <= clock_timestamp());
end
$$;

select stint.revoke_new_functions();
