-- Signals: sending, delivering and receiving them.
-- oldest code: 1

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

select stint.revoke_new_functions();
