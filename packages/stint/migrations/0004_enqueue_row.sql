-- Enqueueing one job that may conflict with another: the same id or the same dedupe key.
-- oldest code: 1

-- Whether a part of a flow waits for other jobs, or for the closing of its batch.
create function stint.waits(p_member jsonb) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_array_length(p_member -> 'after') > 0 or p_member ? 'open', false)
$$;

-- Enqueues one row and decides every conflict: the same id, the same dedupe key, or a key with a time window. In a race, the loser waits
-- inside `insert … on conflict` for the winner's commit or rollback and then tries again. So the rollback of a winner never loses the
-- job of the loser. `p_now` is the time of the whole batch: with individual times, rows would not run in the given order.
--
-- `status`: `created` a job; found an `existing` job with the key and changed nothing; `replaced` the payload or the run time of a waiting
-- job; or `deferred`: the run time of the waiting job moved back, or the new job waits behind the running one.
create function stint.enqueue_row(p_row jsonb, p_now timestamptz)
returns table (id uuid, created boolean, status text, inserted boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    timestamptz;
  v_run_at timestamptz := coalesce(
    (p_row ->> 'run_at')::timestamptz, p_now + (p_row ->> 'delay_ms')::bigint * interval '1 millisecond', p_now);
  v_id     uuid := (p_row ->> 'id')::uuid;
  v_kind   text := p_row ->> 'kind';
  v_key    text := p_row ->> 'dedupe_key';
  v_window bigint := (p_row ->> 'dedupe_ms')::bigint;
  v_other  uuid;
  v_expired boolean;
  v_found  text;
  v_waits  boolean := stint.waits(p_row -> 'member');
  -- A job that waits for others joins its ordered key when it first runs.
  v_turns  boolean := p_row ? 'order' and not v_waits;
begin
  id := v_id;
  inserted := false;

  for try in 1 .. 100 loop
    v_now := clock_timestamp();
    -- In every try: the one before has cleared it if the holder of the key ended meanwhile.
    status := 'created';

    -- An enqueue that is repeated after a lost response may find its job live or already finished. This is checked in every try: the
    -- insert below may have waited for the transaction of that job.
    if p_row ? 'again' then
      select j.kind into v_found from stint.jobs j where j.id = v_id;
      if v_found <> v_kind then
        raise exception 'stint: id % belongs to a job of kind "%", not "%"', v_id, v_found, v_kind
          using errcode = '22023', hint = 'Give an id only to repeat an enqueue whose outcome is unknown.';
      elsif found then
        created := true;
        return next;
        return;
      end if;
    end if;

    if v_window is not null then
      -- Read first: the upsert below would lock the row until the caller's transaction ends, even to do nothing.
      select w.job_id into v_other
      from stint.dedupe_window w
      where w.kind = v_kind and w.key = v_key and w.expires_at > v_now;

      if not found then
        insert into stint.dedupe_window as w (kind, key, job_id, expires_at)
        values (v_kind, v_key, v_id, v_now + v_window * interval '1 millisecond')
        on conflict (kind, key) do update
          set job_id = excluded.job_id, expires_at = excluded.expires_at
          where w.expires_at <= v_now
        returning w.job_id into v_other;
      end if;
      continue when v_other is null;               -- lost the race: try again, with the winner's row

      if v_other <> v_id then
        id := v_other;
        created := false;
        status := 'existing';
        perform stint.count_enqueue(p_row ->> 'queue', v_kind, status);
        return next;
        return;
      end if;
    end if;

    insert into stint.job (
      id, kind, queue, state, priority, run_at, created_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at,
      key, tenant, tags, dedupe_key, dedupe_until, meta, payload, limits, fair_tenant, park_reason, has_follow_ups
    ) values (
      v_id, v_kind, p_row ->> 'queue',
      case when v_waits or v_turns then 'parked' when v_run_at > v_now then 'scheduled' else 'ready' end::stint.job_state,
      coalesce((p_row ->> 'priority')::smallint, 0), v_run_at, p_now,
      (p_row ->> 'max_attempts')::integer, (p_row ->> 'max_crashes')::integer,
      (p_row ->> 'timeout_ms')::bigint, (p_row ->> 'lease_ms')::bigint,
      coalesce((p_row ->> 'expires_at')::timestamptz, p_now + (p_row ->> 'expires_ms')::bigint * interval '1 millisecond'),
      p_row ->> 'key', p_row ->> 'tenant',
      (select array_agg(t.value) from jsonb_array_elements_text(nullif(p_row -> 'tags', 'null')) t),
      case when v_window is null then v_key end, p_row ->> 'dedupe_until',
      nullif(p_row -> 'meta', 'null'), p_row -> 'payload',
      case when p_row ? 'limits' then array(select jsonb_array_elements_text(p_row -> 'limits')) end,
      case when exists (select from stint.queue q where (q.admission is not null or q.fair is not null or q.aging_ms is not null) and q.name >= stint.by_index((select ''::text))) then stint.fair_tenant(p_row ->> 'queue', p_row ->> 'tenant') end,
      case when v_waits then 'blocked' when v_turns then 'limit' end, case when p_row ? 'member' or p_row ? 'order' then true end
    )
    on conflict do nothing;
    inserted := found;

    if inserted or exists (select from stint.job j where j.id = v_id) then
      -- The insert may have waited for the transaction in which this very job was enqueued, run and finished.
      if inserted and p_row ? 'again' and exists (select from stint.history h where h.id = v_id) then
        delete from stint.job j where j.id = v_id;
        inserted := false;
      elsif inserted then
        insert into stint.tally_delta (queue, kind, priority, live, scheduled, parked)
        values (p_row ->> 'queue', v_kind, coalesce((p_row ->> 'priority')::smallint, 0), 1,
          (v_run_at > v_now and not v_waits and not v_turns)::integer, (v_waits or v_turns)::integer);
        if v_turns then
          insert into stint.limit_place (job_id, key, holds, run_at, xid)
          values (v_id, p_row ->> 'order', false, '-infinity', pg_current_xact_id());
        end if;
      end if;
      created := true;
      return next;
      return;
    end if;

    select j.id, j.state <> 'running' and j.expires_at <= clock_timestamp() into v_other, v_expired
    from stint.job j
    where j.kind = v_kind and j.dedupe_key = v_key;
    if v_other = nullif(current_setting('stint_transaction.settles', true), '')::uuid then
      -- The holder is the job that succeeds in this transaction, and this row is its successor: it takes the key over. Otherwise a series of
      -- jobs that enqueue one another would silently stop.
      update stint.job j set dedupe_key = null, dedupe_until = null where j.id = v_other;
      continue;
    end if;
    if v_expired and not p_row ? 'replace' and not exists (select from stint.latest l where l.kind = v_kind and l.key = v_key) then
      -- The holder is too old to run, and a worker will cancel it. Without its key it cannot take this new work with it.
      update stint.job j set dedupe_key = null, dedupe_until = null where j.id = v_other and j.state <> 'running';
      continue;
    end if;
    if p_row ? 'replace' then
      select r.id, r.status into v_other, status from stint.replace_waiting(p_row, p_now) r;
    else
      select j.id, 'existing' into v_other, status from stint.job j where j.kind = v_kind and j.dedupe_key = v_key;
    end if;
    if v_other is not null then
      id := v_other;
      created := false;
      perform stint.count_enqueue(p_row ->> 'queue', v_kind, status);
      return next;
      return;
    end if;
    -- The job that held the key started or ended between the two statements: try again.
  end loop;

  raise exception 'stint: could not decide whether % "%" is a duplicate', v_kind, v_key
    using errcode = '40001', hint = 'The key is changing hands very quickly. Try again.';
end
$$;

select stint.revoke_new_functions();
