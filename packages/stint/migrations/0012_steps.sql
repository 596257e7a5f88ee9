-- What a handler remembers within its job: steps, sleeps, awaited signals, checkpoints, progress and log lines. And the signals themselves.
-- oldest code: 1

-- One remembered part of a handler. Only the attempt that owns the job writes here (fenced). The rows stay with the job, also in the history,
-- and are pruned after it: a replayed job goes on after its last finished step.
create table stint.step (
  job_id     uuid not null,
  seq        integer not null,                     -- the place of the call in its handler, from 1
  name       text collate "C" not null,
  type       text not null,
  is_pending boolean not null default false,       -- a sleep or a wait that has not ended
  until      timestamptz,                          -- when a sleep, or the wait for a signal, ends by itself
  awaits     text,                                 -- the name of the awaited signal
  signal_id  uuid,                                 -- the received signal; null after a timeout
  result     jsonb,
  took_ms    bigint,
  epoch      bigint not null,                      -- of the attempt that wrote it
  at         timestamptz not null default clock_timestamp(),
  primary key (job_id, name),
  constraint step_type_is_known check (type in ('step', 'sleep', 'signal')),
  constraint step_names_have_1_to_256_characters check (length(name) between 1 and 256),
  constraint step_signals_are_named check ((type = 'signal') = (awaits is not null))
) with (
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1
);

-- What a running handler reports, and the checkpoint it goes on from. One row per job, replaced in place.
create table stint.progress (
  job_id        uuid primary key,
  fraction      real,
  note          text,
  checkpoint    jsonb,
  checkpoint_at timestamptz,
  lines         jsonb,                             -- the latest log lines: {at, epoch, text}
  line_count    bigint not null default 0,         -- of all lines ever logged
  at            timestamptz not null,              -- of the last change
  constraint progress_is_a_fraction check (fraction between 0 and 1)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Signals that no handler has received yet. `delivered`: a worker has looked whether its job waits for it.
create table stint.signal (
  id        uuid primary key,
  job_id    uuid not null,
  name      text collate "C" not null,
  payload   jsonb not null,
  sent_at   timestamptz not null default clock_timestamp(),
  sent_by   text,
  delivered boolean not null default false,
  constraint signal_names_have_1_to_128_characters check (length(name) between 1 and 128)
);
create index signal_job on stint.signal (job_id, name, sent_at, id);
create index signal_undelivered on stint.signal (id) where not delivered;

-- ---- Waits -----------------------------------------------------------------------------------------

-- Both are volatile on purpose: the query inside takes a new snapshot. Their callers hold the lock of the job's row, so either the wait is
-- seen by the delivery of the signal, or the signal is seen by the statement that parks the job. With the snapshot of the calling statement, both
-- could miss each other, and the job would wait for a signal that was sent.

create function stint.has_signal(p_job uuid, p_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from stint.signal s where s.job_id = p_job and s.name = p_name);
end
$$;

create function stint.awaits_signal(p_job uuid, p_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from stint.step w where w.job_id = p_job and w.is_pending and w.awaits = p_name);
end
$$;

-- The result of a wait for a signal, decided once: the oldest signal of this name, or the timeout. Statement by statement, each with a new
-- snapshot under the lock of the job's row: a repeat whose first send is still under way must not take a second signal.
-- `outcome`: `received`, `timed-out`, `none` (the job has to wait) or `lost` (the fence no longer holds).
create function stint.receive_signal(
  p_job uuid, p_epoch bigint, p_lease uuid, p_seq integer, p_step text, p_name text
) returns table (outcome text, payload jsonb)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_wait   stint.step;
  v_signal stint.signal;
begin
  perform from stint.job j where j.id = p_job and j.epoch = p_epoch and j.lease_id = p_lease for no key update;
  if not found then
    return query select 'lost', null::jsonb;
    return;
  end if;
  select * into v_wait from stint.step w where w.job_id = p_job and w.name = p_step;
  if found and not v_wait.is_pending then
    return query select case when v_wait.signal_id is null then 'timed-out' else 'received' end, v_wait.result;
    return;
  end if;

  select * into v_signal from stint.signal s
  where s.job_id = p_job and s.name = p_name
  order by s.sent_at, s.id
  limit 1
  for update;
  if not found and (v_wait.until is null or v_wait.until > clock_timestamp()) then
    return query select 'none', null::jsonb;
    return;
  end if;
  delete from stint.signal s where s.id = v_signal.id;
  insert into stint.step as w (job_id, seq, name, type, awaits, signal_id, result, until, epoch)
  values (p_job, p_seq, p_step, 'signal', p_name, v_signal.id, v_signal.payload, v_wait.until, p_epoch)
  on conflict (job_id, name) do update
    set is_pending = false, signal_id = excluded.signal_id, result = excluded.result, epoch = excluded.epoch, at = clock_timestamp();
  return query select case when v_signal.id is null then 'timed-out' else 'received' end, v_signal.payload;
end
$$;

-- ---- Sending ---------------------------------------------------------------------------------------

-- Stores a signal for one live job, in the caller's transaction, and locks nothing that a worker needs: a transaction that is left open must not
-- hold up the settling of a whole batch. A worker delivers the signal once it is committed. `status`: `sent`, `absent`, `ended`, `undeclared` or
-- `ambiguous`; nothing is written unless it is `sent`. A repeat with the same id is the same signal.
create function stint.send_signal(
  p_id uuid, p_target text, p_kind text, p_name text, p_payload jsonb, p_sender text, p_notify boolean, p_until timestamptz default null
) returns table (status text, job_id uuid, kind text, state text, declared text[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_is_id boolean := p_target ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
  v_ids   uuid[];
  v_found integer;
begin
  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;
  if v_is_id then
    v_ids := array[p_target::uuid];
  else
    v_ids := array(select j.id from stint.job j where j.key = p_target and (p_kind is null or j.kind = p_kind) limit 1000);
  end if;
  -- Of several jobs with the key, those whose kind declares the signal are meant; if none does, those whose kind declares no signals at all.
  with candidates as (
    select j.id, j.kind, j.state, k.signals, coalesce(p_name = any (k.signals), false) as declares
    from stint.job j
    left join stint.kind k on k.name = j.kind
    where j.id = any (v_ids) and (p_kind is null or j.kind = p_kind)
  ), ranked as (
    select c.*, rank() over (order by c.declares desc, c.signals is null desc) as place from candidates c
  )
  select count(*), (array_agg(r.id order by r.id))[1], (array_agg(r.kind order by r.id))[1], (array_agg(r.state::text order by r.id))[1]
  into v_found, job_id, kind, state
  from ranked r
  where r.place = 1;

  if v_found = 0 then
    if not v_is_id then
      v_ids := array(select h.id from stint.history h where h.key = p_target limit 1000);
    end if;
    select 'ended', h.id, h.kind, h.state::text into status, job_id, kind, state
    from stint.history h
    where h.id = any (v_ids) and (p_kind is null or h.kind = p_kind)
    order by h.finished_at desc
    limit 1;
    status := coalesce(status, 'absent');
  elsif v_found > 1 then
    status := 'ambiguous';
  else
    select k.signals into declared from stint.kind k where k.name = send_signal.kind;
    status := case when p_name <> all (declared) then 'undeclared' else 'sent' end;
  end if;
  -- A repeat may come after the job has received the signal and ended.
  if status <> 'sent' and exists (select from stint.step w where w.job_id = send_signal.job_id and w.signal_id = p_id) then
    status := 'sent';
  elsif status = 'sent' then
    insert into stint.signal (id, job_id, name, payload, sent_by)
    select p_id, send_signal.job_id, p_name, p_payload, p_sender
    where not exists (select from stint.step w where w.job_id = send_signal.job_id and w.signal_id = p_id)
    on conflict (id) do nothing;
    perform stint.wake(array['signal'], p_notify);
  end if;
  return next;
end
$$;

-- Send a signal to a job, by its id or its key, from psql, a trigger or any language, in the transaction you are in. Options: {"kind": …} where
-- jobs of several kinds have the key, {"id": …} to repeat a send. Returns the id of the job.
create function stint.signal(target text, name text, payload jsonb default 'null', options jsonb default '{}') returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_allowed constant text[] := array['kind', 'id'];
  v_unknown text;
  v_sent    record;
begin
  if signal.target is null or length(signal.target) not between 1 and 512 then
    raise exception 'stint: signal: the target must be the id or the key of a job' using errcode = '22023', hint = 'Nothing was sent.';
  end if;
  if signal.name is null or signal.name !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$' then
    raise exception 'stint: signal "%": the name must be letters, digits and . _ : / - only, at most 128', left(signal.name, 200)
      using errcode = '22023', hint = 'Nothing was sent.';
  end if;
  if signal.payload is null then
    raise exception 'stint: signal "%": the payload is SQL null', signal.name
      using errcode = '22023', hint = 'Write ''null''::jsonb for an empty one.';
  end if;
  perform stint.check_json(signal.name, 'payload', signal.payload, 1048576);
  if signal.options is null or jsonb_typeof(signal.options) <> 'object' then
    raise exception 'stint: signal "%": options must be a JSON object', signal.name using errcode = '22023', hint = 'Nothing was sent.';
  end if;
  select o into v_unknown from jsonb_object_keys(signal.options) o where o <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: signal "%": unknown option "%"', signal.name, left(v_unknown, 200)
      using errcode = '22023', hint = 'Options are: kind, id. Nothing was sent.';
  end if;
  if signal.options ->> 'id' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    raise exception 'stint: signal "%": id must be a UUID', signal.name using errcode = '22023', hint = 'Nothing was sent.';
  end if;

  select s.* into v_sent
  from stint.send_signal(
    coalesce((signal.options ->> 'id')::uuid, stint.new_id()), signal.target, signal.options ->> 'kind', signal.name, signal.payload,
    'sql:' || session_user, null) s;
  case v_sent.status
    when 'absent' then
      raise exception 'stint: signal "%": no job has the id or key "%"', signal.name, left(signal.target, 200)
        using errcode = '22023', hint = 'It was never committed, or it was pruned. Nothing was sent.';
    when 'ended' then
      raise exception 'stint: signal "%": job % is %', signal.name, v_sent.job_id, v_sent.state
        using errcode = '22023', hint = 'Only a live job can receive a signal. Nothing was sent.';
    when 'ambiguous' then
      raise exception 'stint: signal "%": several live jobs have the key "%"', signal.name, left(signal.target, 200)
        using errcode = '22023', hint = 'Use the id of one of them, or the option kind. Nothing was sent.';
    when 'undeclared' then
      raise exception 'stint: signal "%": kind "%" declares no such signal', signal.name, v_sent.kind
        using errcode = '22023', hint = 'It declares: ' || coalesce(nullif(array_to_string(v_sent.declared, ', '), ''), 'none') || '. Nothing was sent.';
    else
      return v_sent.job_id;
  end case;
end
$$;

-- ---- Completing and changing waiting jobs ----------------------------------------------------------

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
    perform stint.run_follow_ups(array[p_id], array['succeeded'::stint.job_state], array[p_result]);
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

-- Functions are open to everybody unless it is said otherwise.
revoke all on all functions in schema stint from public;
