-- New work that replaces a waiting job, or waits behind the running one.
-- oldest code: 1

-- Counts an enqueue that created nothing. Rows are appended: enqueues that update one counter row would wait for each other.
create function stint.count_enqueue(p_queue text, p_kind text, p_status text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into stint.enqueue_count (queue, kind, status, count) values (p_queue, p_kind, p_status, 1);
end
$$;

-- Another job holds the key of `p_row`. The new work replaces a waiting job; while the holder runs, it waits behind the holder. Null: the holder
-- has just started or ended, and the caller tries again. Row locks and the primary key of `latest` decide. A running holder is never
-- locked: an open transaction of the caller could then block the holder from recording its outcome.
create function stint.replace_waiting(p_row jsonb, p_now timestamptz, out id uuid, out status text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_kind   constant text := p_row ->> 'kind';
  v_key    constant text := p_row ->> 'dedupe_key';
  v_job    stint.job;
  v_holder uuid;
begin
  -- A job that waits behind the holder is replaced first: it is newer than the holder, also if the holder has failed and waits for its retry.
  update stint.latest l
  set xid = pg_current_xact_id(), checked = false
  where l.kind = v_kind and l.key = v_key
  returning l.job_id into id;
  if found then
    select j.* into v_job from stint.job j where j.id = replace_waiting.id and j.state = 'parked' and j.park_reason = 'latest' for update;
    if not found then                              -- it was cancelled
      delete from stint.latest l where l.kind = v_kind and l.key = v_key;
      id := null;
      return;
    end if;
    status := stint.replace_job(v_job, p_row, p_now);
    return;
  end if;

  select j.* into v_job
  from stint.job j
  where j.kind = v_kind and j.dedupe_key = v_key and (j.state in ('scheduled', 'ready', 'retrying') or j.park_reason in ('limit', 'paused'))
  for update;
  if found then
    id := v_job.id;
    status := stint.replace_job(v_job, p_row, p_now);
    return;
  end if;

  select j.id into v_holder from stint.job j where j.kind = v_kind and j.dedupe_key = v_key and j.state in ('running', 'parked');
  if not found then
    return;
  end if;
  insert into stint.latest (kind, key, job_id, behind, dedupe_until)
  values (v_kind, v_key, (p_row ->> 'id')::uuid, v_holder, p_row ->> 'dedupe_until')
  on conflict do nothing;
  if not found then
    return;
  end if;
  id := (p_row ->> 'id')::uuid;
  status := 'deferred';
  perform from stint.enqueue_row(p_row - array['replace', 'dedupe_key', 'dedupe_until', 'max_wait_ms', 'again'], p_now);
  select j.* into v_job from stint.job j where j.id = replace_waiting.id;
  update stint.job j set state = 'parked', park_reason = 'latest' where j.id = v_job.id;
  insert into stint.tally_delta (queue, kind, priority, scheduled, parked)
  values (v_job.queue, v_kind, v_job.priority, - (v_job.state = 'scheduled')::integer, (v_job.state <> 'parked')::integer);
end
$$;

-- What earlier attempts of a job remembered belongs to the payload they had: its steps, its checkpoint, and the payload of the run it planned next.
create function stint.forget_attempts(p_id uuid, p_payload jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from stint.step s where s.job_id = p_id;
  update stint.progress p set checkpoint = null, checkpoint_at = null where p.job_id = p_id and p.checkpoint is not null;
  update stint.next_run n set row = jsonb_set(n.row, '{payload}', p_payload) where n.job_id = p_id and n.made_at is null;
end
$$;

-- Gives a waiting, locked job the payload or the run time of `p_row`, or both. A new payload gets all attempts. A failed job never runs before
-- its backoff is over. `max_wait_ms` limits how far the run time moves from the first enqueue.
create function stint.replace_job(p_job stint.job, p_row jsonb, p_now timestamptz) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_payload constant boolean := p_row ->> 'replace' in ('payload', 'both');
  v_run_at  timestamptz := p_job.run_at;
  v_state   stint.job_state := p_job.state;
  v_after   stint.job;
begin
  if p_row ->> 'replace' in ('run_at', 'both') then
    v_run_at := least(
      coalesce((p_row ->> 'run_at')::timestamptz, p_now + (p_row ->> 'delay_ms')::bigint * interval '1 millisecond', p_job.run_at),
      p_job.created_at + (p_row ->> 'max_wait_ms')::bigint * interval '1 millisecond');
    if v_state = 'retrying' then
      v_run_at := greatest(v_run_at, p_job.run_at);
    elsif v_state in ('scheduled', 'ready') then
      v_state := case when v_run_at > clock_timestamp() then 'scheduled' else 'ready' end;
    end if;
  end if;
  update stint.job j
  set
    payload = case when v_payload then p_row -> 'payload' else j.payload end,
    attempts = case when v_payload then 0 else j.attempts end,
    expires_at = case when v_payload
      then coalesce((p_row ->> 'expires_at')::timestamptz, p_now + (p_row ->> 'expires_ms')::bigint * interval '1 millisecond')
      else j.expires_at end,
    state = v_state,
    run_at = v_run_at
  where j.id = p_job.id;
  if v_payload and p_job.epoch > 0 then
    perform stint.forget_attempts(p_job.id, p_row -> 'payload');
  end if;
  if v_payload and p_row ? 'limits' then
    v_after := p_job;
    v_after.run_at := v_run_at;
    v_state := stint.change_limits(v_after, v_state, p_job.priority, p_row);
  end if;
  if v_state <> p_job.state then
    insert into stint.tally_delta (queue, kind, priority, scheduled, retrying, parked)
    select p_job.queue, p_job.kind, p_job.priority, sum(t.sign * (t.state = 'scheduled')::integer), sum(t.sign * (t.state = 'retrying')::integer),
      sum(t.sign * (t.state = 'parked')::integer)
    from (values (p_job.state, -1), (v_state, 1)) as t (state, sign);
    if p_job.state = 'parked' then
      perform stint.wake(array[case v_state when 'ready' then 'ready:' || p_job.queue else 'due' end], null);
    end if;
  end if;
  return case when v_run_at > p_job.run_at then 'deferred' else 'replaced' end;
end
$$;

-- Jobs have ended: the jobs that wait behind them become ready and take their dedupe keys. A locked row is skipped: its transaction is replacing
-- the waiting job, and lifts it at its commit (check_latest). If that transaction rolls back, upkeep lifts the job (lift_missed).
create function stint.lift_latest(p_ended uuid[]) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_next   stint.latest;
  v_job    stint.job;
  v_holder stint.job;
  v_hints  text[] := '{}';
begin
  for v_next in
    select l.* from stint.latest l where l.behind = any (p_ended) for update skip locked
  loop
    for try in 1 .. 100 loop
      -- Another job took the key between the end of the holder and this statement. If that job is locked, upkeep returns to it: its session may wait
      -- for this one.
      select j.* into v_holder from stint.job j where j.kind = v_next.kind and j.dedupe_key = v_next.key and j.id <> v_next.job_id
      for no key update skip locked;
      if not found and exists (select from stint.job j where j.kind = v_next.kind and j.dedupe_key = v_next.key and j.id <> v_next.job_id) then
        exit;
      elsif v_holder.id is not null then
        update stint.job j set has_follow_ups = true where j.id = v_holder.id and j.has_follow_ups is null;
        update stint.latest l set behind = v_holder.id, checked = true where l.kind = v_next.kind and l.key = v_next.key;
        exit;
      end if;
      begin
        update stint.job j
        set
          state = case when j.run_at > clock_timestamp() then 'scheduled' else 'ready' end::stint.job_state,
          park_reason = null, dedupe_key = v_next.key, dedupe_until = v_next.dedupe_until
        where j.id = v_next.job_id and j.state = 'parked' and j.park_reason = 'latest'
        returning j.* into v_job;
        if found then
          insert into stint.tally_delta (queue, kind, priority, scheduled, parked)
          values (v_job.queue, v_job.kind, v_job.priority, (v_job.state = 'scheduled')::integer, -1);
          v_hints := v_hints || case v_job.state when 'scheduled' then 'due' else 'ready:' || v_job.queue end;
        end if;
        delete from stint.latest l where l.kind = v_next.kind and l.key = v_next.key;
        exit;
      exception
        when unique_violation then null;           -- taken at this moment: try again
      end;
    end loop;
  end loop;

  -- What could not be locked. A job that is live and has follow-ups lifts the other at its end.
  insert into stint.latest_missed (behind)
  select distinct l.behind
  from stint.latest l
  where l.behind = any (p_ended) and not exists (select from stint.job j where j.id = l.behind and j.has_follow_ups)
  order by 1
  on conflict do nothing;

  perform stint.wake(v_hints, null);
end
$$;

-- For upkeep: lifts the jobs that lift_latest skipped. Returns how many are still locked.
create function stint.lift_missed() returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids constant uuid[] := array(select m.behind from stint.latest_missed m limit 1000 for update skip locked);
begin
  delete from stint.latest_missed m where m.behind = any (v_ids);
  perform stint.lift_latest(v_ids);
  return (select count(*) from stint.latest_missed m where m.behind = any (v_ids));
end
$$;

-- Runs at the commit of a transaction that wrote to `latest`, and only then locks the holder. Either the holder is live and gets
-- `has_follow_ups`, so that its end lifts the waiting job; or it ended while this transaction was open, and the waiting job is lifted here.
-- The commit never waits for a lock: its session may wait for a job that this transaction holds, as a settle of several jobs does. After 20 ms
-- upkeep does the rest (lift_missed).
create function stint.check_latest() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_next   stint.latest;
  v_pauses integer := 0;
begin
  for v_next in
    select l.* from stint.latest l where l.xid = pg_current_xact_id() and not l.checked order by l.behind
  loop
    update stint.latest l set checked = true where l.kind = v_next.kind and l.key = v_next.key;
    loop
      perform from stint.job j where j.id = v_next.behind for no key update skip locked;
      if found then
        update stint.job j set has_follow_ups = true where j.id = v_next.behind and j.has_follow_ups is null;
        exit;
      elsif not exists (select from stint.job j where j.id = v_next.behind) then
        perform stint.lift_latest(array[v_next.behind]);
        exit;
      elsif v_pauses >= 10 then
        insert into stint.latest_missed (behind) values (v_next.behind) on conflict do nothing;
        exit;
      end if;
      v_pauses := v_pauses + 1;
      perform pg_sleep(0.002);
    end loop;
  end loop;
  return null;
end
$$;

create constraint trigger check_latest after insert or update of xid on stint.latest
deferrable initially deferred
for each row when (not new.checked) execute function stint.check_latest();

select stint.revoke_new_functions();
