-- Completing and changing jobs that wait, by a person or a webhook.
-- oldest code: 1

-- A success that no worker records: an approval or a webhook has done the work of the job. Returns the kind of the job; null: it does not wait.
-- `p_until` is checked once the row is locked: a late repeat must not end a job that was replayed since then.
create function stint.complete_waiting(
  p_id uuid, p_result jsonb, p_audit uuid, p_actor text, p_reason text, p_until timestamptz default null
) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job stint.job;
begin
  delete from stint.job j where j.id = p_id and j.state <> 'running' returning j.* into v_job;
  if not found then
    return null;
  end if;
  if clock_timestamp() >= p_until then
    perform stint.too_late();
  end if;
  insert into stint.history (
    id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults, epoch, run, lease_id, worker,
    claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, reason, meta, payload, result, log, limits)
  values (
    v_job.id, v_job.kind, v_job.queue, 'succeeded', v_job.priority, v_job.run_at, v_job.created_at, clock_timestamp(), v_job.attempts, v_job.crashes,
    v_job.interruptions, v_job.faults, v_job.epoch, v_job.run, v_job.lease_id, v_job.worker, v_job.claimed_at, v_job.max_attempts,
    v_job.max_crashes, v_job.timeout_ms, v_job.lease_ms, v_job.expires_at, v_job.key, v_job.tenant, v_job.tags, null, v_job.meta, v_job.payload, p_result, v_job.log, v_job.limits);
  insert into stint.tally_delta (queue, kind, priority, live, scheduled, retrying, parked)
  values (v_job.queue, v_job.kind, v_job.priority, -1, - (v_job.state = 'scheduled')::integer, - (v_job.state = 'retrying')::integer,
    - (v_job.state = 'parked')::integer);
  insert into stint.audit (id, actor, action, reason, job_id) values (p_audit, p_actor, 'complete', p_reason, p_id);
  if v_job.has_follow_ups then
    -- A transaction of the caller may stay open. Upkeep lets in the jobs that wait for its places, after the commit.
    perform set_config('stint_transaction.stays_open', case when statement_timestamp() <> transaction_timestamp() then 'on' else '' end, true);
    perform stint.run_follow_ups(array[p_id], array['succeeded'::stint.job_state], array[p_result]);
    perform set_config('stint_transaction.stays_open', '', true);
  end if;
  return v_job.kind;
end
$$;

-- Gives a waiting job another payload, run time or priority. `p_change` has the fields `payload`, `run_at`, `delay_ms` and `priority`, as enqueue_row
-- takes them. `status`: `changed`, `absent`, or `refused`: the job runs, has ended, or is parked in a way that forbids this change. A new payload
-- has all its attempts, and nothing that earlier ones remembered.
create function stint.change_waiting(
  p_id uuid, p_change jsonb, p_audit uuid, p_actor text, p_reason text, p_until timestamptz default null,
  out status text, out state text, out park_reason text, out queue text
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_payload  constant boolean := p_change ? 'payload';
  v_timed    constant boolean := p_change ? 'run_at' or p_change ? 'delay_ms';
  v_job      stint.job;
  v_state    stint.job_state;
  v_priority smallint;
  v_now      timestamptz;
  v_run_at   timestamptz;
begin
  select j.* into v_job from stint.job j where j.id = p_id for update;
  if not found then
    select h.state into state from stint.history h where h.id = p_id limit 1;
    status := case when found then 'refused' else 'absent' end;
    return;
  end if;
  v_now := clock_timestamp();
  if v_now >= p_until then
    perform stint.too_late();
  end if;
  state := v_job.state;
  park_reason := v_job.park_reason;
  queue := v_job.queue;
  -- The handler is in the middle of its work while it sleeps or waits. A parked job has its run time from the park, unless that orders it only.
  if v_job.state = 'running'
    or (v_payload and v_job.state = 'parked' and (v_job.park_reason in ('sleep', 'signal') or (v_job.park_reason = 'blocked' and v_job.epoch > 0)))
    or (v_timed and v_job.state = 'parked' and v_job.park_reason not in ('latest', 'blocked'))
  then
    status := 'refused';
    return;
  end if;

  status := 'changed';
  v_state := v_job.state;
  v_run_at := v_job.run_at;
  v_priority := coalesce((p_change ->> 'priority')::smallint, v_job.priority);
  if v_timed then
    -- Not before now: claims start at the newest job they have seen, and find an older one only later.
    v_run_at := greatest(v_now, coalesce((p_change ->> 'run_at')::timestamptz, v_now + (p_change ->> 'delay_ms')::bigint * interval '1 millisecond'));
    if v_run_at <= v_now and v_state <> 'parked' then
      v_state := 'ready';
    elsif v_state = 'ready' then
      v_state := 'scheduled';
    end if;
  elsif v_state = 'ready' and v_priority <> v_job.priority then
    v_run_at := v_now;
  end if;

  update stint.job j
  set payload = case when v_payload then p_change -> 'payload' else j.payload end,
      attempts = case when v_payload then 0 else j.attempts end,
      priority = v_priority, run_at = v_run_at, state = v_state
  where j.id = p_id;
  if v_payload and v_job.epoch > 0 then
    perform stint.forget_attempts(p_id, p_change -> 'payload');
  end if;
  if p_change ? 'limits' or v_priority <> v_job.priority then
    v_state := stint.change_limits(v_job, v_state, v_priority, p_change);
  end if;
  insert into stint.tally_delta (queue, kind, priority, live, scheduled, retrying, parked)
  select v_job.queue, v_job.kind, t.priority, t.sign, t.sign * (t.state = 'scheduled')::integer, t.sign * (t.state = 'retrying')::integer,
    t.sign * (t.state = 'parked')::integer
  from (values (v_job.priority, v_job.state, -1), (v_priority, v_state, 1)) as t (priority, state, sign)
  where v_priority <> v_job.priority or v_state <> v_job.state;
  -- The payload itself may be secret, and is not copied.
  insert into stint.audit (id, actor, action, reason, job_id, change)
  values (p_audit, p_actor, 'change', p_reason, p_id, jsonb_strip_nulls(jsonb_build_object(
    'payload', case when v_payload then true end,
    'runAt', case when v_timed then jsonb_build_object('from', v_job.run_at, 'to', v_run_at) end,
    'priority', case when v_priority <> v_job.priority then jsonb_build_object('from', v_job.priority, 'to', v_priority) end)));
  if v_state = 'ready' then
    perform stint.wake(array['ready:' || v_job.queue], null);
  elsif v_timed then
    perform stint.wake(array['due'], null);
  end if;
  state := v_state;
end
$$;

-- The reason and the actor of what is done to one job.
create function stint.check_act(p_job uuid, p_reason text, p_actor text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_job is null then
    raise exception 'stint: the job must be the id of a job, got null' using errcode = '22023', hint = 'Nothing was changed.';
  end if;
  if length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]' or length(p_actor) not between 1 and 512 or p_actor ~ E'[\\x01-\\x1f]' then
    raise exception 'stint: job %: reason and actor must be texts of 1 to 512 characters without control characters', p_job
      using errcode = '22023', hint = 'Nothing was changed.';
  end if;
end
$$;

-- End a job that no worker runs as succeeded, with this result, in the transaction you are in.
create function stint.complete(job uuid, result jsonb default null, reason text default null, actor text default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor constant text := coalesce(complete.actor, 'sql:' || session_user);
  v_state stint.job_state;
begin
  perform stint.check_act(complete.job, complete.reason, v_actor);
  if complete.result is not null then
    perform stint.check_json((select j.kind from stint.jobs j where j.id = complete.job), 'result', complete.result, 1048576);
  end if;
  if stint.complete_waiting(complete.job, complete.result, stint.new_id(), v_actor, complete.reason) is not null then
    return;
  end if;
  select j.state into v_state from stint.jobs j where j.id = complete.job;
  raise exception 'stint: complete: job % %', complete.job, coalesce('is ' || v_state, 'does not exist')
    using errcode = '22023', hint = 'Only a job that waits can be completed. Nothing was changed.';
end
$$;

-- Change the payload, run time or priority of a waiting job, in the transaction you are in: {"payload": …, "runAt": …, "delay": …, "priority": …}.
create function stint.change(job uuid, change jsonb, reason text default null, actor text default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_actor   constant text := coalesce(change.actor, 'sql:' || session_user);
  v_allowed constant text[] := array['payload', 'runAt', 'delay', 'priority'];
  v_kind    text;
  v_unknown text;
  v_done    record;
begin
  perform stint.check_act(change.job, change.reason, v_actor);
  if change.change is null or jsonb_typeof(change.change) <> 'object' or change.change = '{}' then
    raise exception 'stint: job %: the change must be a JSON object such as {"priority": 5}', change.job
      using errcode = '22023', hint = 'Nothing was changed.';
  end if;
  select c into v_unknown from jsonb_object_keys(change.change) c where c <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: job %: unknown change "%"', change.job, left(v_unknown, 200)
      using errcode = '22023', hint = 'Changes are: ' || array_to_string(v_allowed, ', ') || '. Nothing was changed.';
  end if;
  select j.kind into v_kind from stint.jobs j where j.id = change.job;
  if change.change ? 'runAt' and change.change ? 'delay' then
    perform stint.refuse(v_kind, 'give runAt or delay, not both', change.change);
  end if;
  if change.change ? 'payload' then
    perform stint.check_json(v_kind, 'payload', change.change -> 'payload', 1048576);
  end if;
  select c.* into v_done
  from stint.change_waiting(change.job,
    jsonb_strip_nulls(jsonb_build_object(
      'run_at', stint.checked_time(v_kind, change.change, 'runAt'), 'delay_ms', stint.checked_ms(v_kind, change.change, 'delay'),
      'priority', stint.checked_integer(v_kind, change.change, 'priority', -32768, 32767)))
    || case when change.change ? 'payload' then jsonb_build_object('payload', change.change -> 'payload') else '{}' end,
    stint.new_id(), v_actor, change.reason) c;
  if v_done.status = 'absent' then
    raise exception 'stint: change: job % does not exist', change.job using errcode = '22023', hint = 'Nothing was changed.';
  elsif v_done.status = 'refused' then
    raise exception 'stint: change: job % is %', change.job, v_done.state || coalesce(' (' || v_done.park_reason || ')', '')
      using errcode = '22023', hint = 'Only a waiting job can be changed, and not what its handler waits for. Nothing was changed.';
  end if;
end
$$;

select stint.revoke_new_functions();
