-- Enqueueing, and the small functions that it and the other statements use.
-- oldest code: 1

-- ---- Small helpers ---------------------------------------------------------------------------------

-- UUIDv7 for callers without a client: 48 bits of milliseconds, then randomness.
create function stint.new_id() returns uuid
language sql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select (
    lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
    || '7'
    || substr(replace(gen_random_uuid()::text, '-', ''), 14)
  )::uuid
$$;

-- The channel of this installation's wakes. It contains the schema, so that two installations have separate channels. The migration
-- replaces the qualifier in the text by the real schema. The planner folds the function to a constant: looking the schema up cost more
-- than the wake.
create function stint.wake_channel() returns text
language sql immutable parallel safe
as $$
  select 'stint:' || btrim(split_part('stint.job', '.', 1), '"')
$$;

-- Sends wakes to the workers that listen. `p_notify` as in enqueue_rows: null means not where the server allows prepared transactions. A full
-- notification queue would fail the commit, and a wake is only a hint: none is sent then.
create function stint.wake(p_hints text[], p_notify boolean default true) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_hints <> '{}' and coalesce(p_notify, current_setting('max_prepared_transactions') = '0') and pg_notification_queue_usage() < 0.5
    and exists (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute'))
  then
    perform pg_notify(stint.wake_channel(), hint) from (select distinct h as hint from unnest(p_hints) h) hints;
  end if;
end
$$;

-- Keeps the first attempt and the latest ones; with 20 entries the second oldest is dropped.
create function stint.append_attempt(log jsonb, entry jsonb) returns jsonb
language sql immutable parallel safe
as $$
  select case
    when log is null then jsonb_build_array(entry)
    when jsonb_array_length(log) < 20 then log || jsonb_build_array(entry)
    else (log - 1) || jsonb_build_array(entry)
  end
$$;

-- The reason given with the newest request to cancel a job; null if none was given.
create function stint.cancel_reason(p_job uuid) returns text
language sql stable
as $$
  select a.reason
  from stint.audit a
  where a.job_id = p_job and a.action = 'cancel'
    and not exists (
      select from stint.audit later
      where later.job_id = p_job and later.action = 'cancel' and (later.at, later.id) > (a.at, a.id)
    )
$$;

-- Returns its argument. Only its cost matters: the planner counts it once for a value that is looked up in an index, and once
-- for every row otherwise. Without it, statistics from a moment when a queue was empty make a bitmap scan and a sort of the
-- whole queue look as cheap as the index scan that stops after a few rows.
create function stint.by_index(value anyelement) returns anyelement
language plpgsql immutable parallel safe cost 40000
as $$
begin
  return value;
end
$$;

-- ---- Deadlines -------------------------------------------------------------------------------------

-- A statement may take effect long after its sender gave up on it: the network held it back, its backend was stopped, or it waited
-- for a lock. So the sender passes a deadline by the server's clock. Both functions fail the statement, so that it writes
-- nothing, and report the server's clock, so that the sender can correct its estimate.

create function stint.too_late() returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: the statement arrived after its deadline and changed nothing'
    using errcode = 'ST001', detail = to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    hint = 'It was slow, or the clock of the server was set. Stint sends it again.';
end
$$;

create function stint.too_early() returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: the repeat arrived before the deadline of the statement it repeats and changed nothing'
    using errcode = 'ST002', detail = to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    hint = 'Stint sends it again once the deadline has passed.';
end
$$;

-- ---- Enqueueing ------------------------------------------------------------------------------------

-- Every enqueue, from TypeScript or SQL, calls one of two functions: enqueue_new for jobs that cannot conflict with an existing one, and
-- enqueue_rows for all others. `p_notify` decides whether to wake workers in this transaction: true, false, or null for "unless the
-- server allows prepared transactions", because PREPARE TRANSACTION fails after a NOTIFY. `listening` returns whether any worker
-- listens, so that the caller knows whether to send a wake after the commit.
--
-- `p_until` is the deadline of a send that its sender may give up and repeat. It is checked after the rows are in the index: either they
-- are there before the deadline, so that a later repeat conflicts with them, or none is written. Null in a transaction of the caller,
-- which Stint never repeats.
--
-- Both run with their owner's rights (security definer), so that an enqueue-only role needs no right on any table. Both update the
-- tallies (0006) in the same transaction.

-- Jobs with new ids and without dedupe keys, which is most of them. All are created, so the function returns only whether any worker
-- listens. Arguments are columns, because they are the cheapest to read; a kind or queue that all jobs share is given once.
-- `p_more` has an object of further fields for each job, as in enqueue_rows, or is null if no job has any.
create function stint.enqueue_new(
  p_ids uuid[], p_kinds text[], p_queues text[], p_payloads jsonb, p_more jsonb, p_notify boolean,
  p_until timestamptz default null
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now   timestamptz := clock_timestamp();
  v_listening boolean;
  v_limited   boolean;
  v_delays    jsonb;
  v_wake  boolean := coalesce(p_notify, current_setting('max_prepared_transactions') = '0');
  v_given integer := cardinality(p_ids);
  v_rows  integer := 0;
  -- If all jobs have one kind and one queue, their tallies need no grouping.
  v_alike boolean := p_more is null and cardinality(p_kinds) = 1 and cardinality(p_queues) = 1;
begin
  -- A worker that died while listening receives no wakes. An asleep worker sends no heartbeats but still listens. In one query: each costs microseconds.
  select exists (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute')), exists (select from stint.queue q where q.admission is not null)
  into v_listening, v_limited;
  -- Queues with admission settings (0015) may refuse or delay the jobs.
  if v_limited then
    v_delays := stint.admit_rows(array_to_json(array(
      select jsonb_build_object('id', i.id, 'queue', coalesce(i.queue, p_queues[1]), 'tenant', i.more ->> 'tenant')
      from rows from (unnest(p_ids), unnest(p_queues), jsonb_array_elements(p_more)) as i (id, queue, more)))::jsonb);
    if v_delays <> '{}' then
      v_alike := false;
      p_more := stint.deferred_rows(array_to_json(array(
        select coalesce(nullif(i.more, 'null'), '{}') || jsonb_build_object('queue', coalesce(i.queue, p_queues[1]))
        from rows from (unnest(p_ids), unnest(p_queues), jsonb_array_elements(p_more)) as i (id, queue, more)))::jsonb, v_delays);
    end if;
  end if;

  -- `on conflict` costs one more WAL record per row, so many rows are first inserted without it. Only as the first write of a
  -- transaction: the exception block is a subtransaction, and many of them in one transaction slow down the whole server.
  if p_more is null and v_given >= 100 and pg_current_xact_id_if_assigned() is null then
    begin
      insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
      select i.id, coalesce(i.kind, p_kinds[1]), coalesce(i.queue, p_queues[1]), 'ready', v_now, v_now, i.payload
      from rows from (unnest(p_ids), unnest(p_kinds), unnest(p_queues), jsonb_array_elements(p_payloads))
        as i (id, kind, queue, payload);
      v_rows := v_given;
    exception
      when unique_violation then null;
    end;
    if v_rows > 0 and not v_alike then
      insert into stint.tally_delta (queue, kind, priority, live)
      select coalesce(i.queue, p_queues[1]), coalesce(i.kind, p_kinds[1]), 0, count(*)
      from rows from (unnest(p_ids), unnest(p_kinds), unnest(p_queues)) as i (id, kind, queue)
      group by 1, 2;
    end if;
  end if;
  if v_rows = 0 and v_alike then
    insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
    select i.id, p_kinds[1], p_queues[1], 'ready', v_now, v_now, i.payload
    from rows from (unnest(p_ids), jsonb_array_elements(p_payloads)) as i (id, payload)
    on conflict do nothing;
    get diagnostics v_rows = row_count;
  elsif v_rows = 0 then
    with new as (
      insert into stint.job (
        id, kind, queue, state, priority, run_at, created_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at,
        key, tenant, tags, meta, payload, limits, has_follow_ups
      )
      select
        i.id, coalesce(i.kind, p_kinds[1]), coalesce(i.queue, p_queues[1]),
        case when t.run_at > v_now then 'scheduled' else 'ready' end::stint.job_state,
        coalesce((i.more ->> 'priority')::smallint, 0), coalesce(t.run_at, v_now), v_now,
        (i.more ->> 'max_attempts')::integer, (i.more ->> 'max_crashes')::integer,
        (i.more ->> 'timeout_ms')::bigint, (i.more ->> 'lease_ms')::bigint,
        coalesce((i.more ->> 'expires_at')::timestamptz, v_now + (i.more ->> 'expires_ms')::bigint * interval '1 millisecond'),
        i.more ->> 'key', i.more ->> 'tenant',
        case when i.more -> 'tags' <> 'null' then array(select jsonb_array_elements_text(i.more -> 'tags')) end,
        -- JSON null means that there is no meta. It must be stored as SQL null.
        nullif(i.more -> 'meta', 'null'), i.payload,
        case when i.more ? 'limits' then array(select jsonb_array_elements_text(i.more -> 'limits')) end,
        case when i.more ? 'limits' then true end
      from rows from (
        unnest(p_ids), unnest(p_kinds), unnest(p_queues), jsonb_array_elements(p_payloads), jsonb_array_elements(p_more)
      ) as i (id, kind, queue, payload, more),
      lateral (select coalesce(
        (i.more ->> 'run_at')::timestamptz, v_now + (i.more ->> 'delay_ms')::bigint * interval '1 millisecond'
      ) as run_at) t
      on conflict do nothing
      returning queue, kind, priority, state
    ), tallied as (
      insert into stint.tally_delta (queue, kind, priority, live, scheduled)
      select queue, kind, priority, count(*), count(*) filter (where state = 'scheduled')
      from new
      group by queue, kind, priority
    )
    select count(*) into v_rows from new;
  end if;
  if v_alike and v_rows > 0 then
    insert into stint.tally_delta (queue, kind, priority, live) values (p_queues[1], p_kinds[1], 0, v_rows);
  end if;

  -- Some ids exist already. A repeat of the same id means the same job; enqueue_row finds the rows just written by their ids.
  if v_rows < v_given then
    perform stint.enqueue_row(
      coalesce(nullif(i.more, 'null'), '{}') || jsonb_build_object('id', i.id, 'kind', coalesce(i.kind, p_kinds[1]),
        'queue', coalesce(i.queue, p_queues[1]), 'payload', i.payload), v_now)
    from rows from (
      unnest(p_ids), unnest(p_kinds), unnest(p_queues), jsonb_array_elements(p_payloads), jsonb_array_elements(p_more)
    ) as i (id, kind, queue, payload, more);
  end if;
  if v_limited then
    perform stint.shed_surplus(p_queues);
  end if;

  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;

  -- A full notification queue would fail the caller's commit. A wake is only a hint: stay silent then.
  if v_wake and v_listening and pg_notification_queue_usage() < 0.5 then
    perform pg_notify(stint.wake_channel(), hint)
    from (
      select distinct case when i.more ? 'run_at' or i.more ? 'delay_ms' then 'due'
                           else 'ready:' || coalesce(i.queue, p_queues[1]) end as hint
      from rows from (unnest(p_ids), unnest(p_queues), jsonb_array_elements(p_more)) as i (id, queue, more)
    ) hints;
  end if;
  return v_listening;
end
$$;

-- Any jobs, also those with a dedupe key and those that may have been enqueued before. `p_rows` is an array of checked rows. Returns one
-- row per input row, by ordinal, with the status that enqueue_row describes. A row's own `wake` overrides `p_notify`. `p_after` is the
-- latest deadline of earlier sends of these rows: before it, an earlier send could still write rows that this call does not see.
create function stint.enqueue_rows(
  p_rows jsonb, p_notify boolean, p_until timestamptz default null, p_after timestamptz default null
)
returns table (ordinal integer, id uuid, created boolean, listening boolean, status text)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := clock_timestamp();
  v_listening boolean;
  v_limited   boolean;
  v_delays    jsonb;
  v_wake  boolean := coalesce(p_notify, current_setting('max_prepared_transactions') = '0');
  v_row   jsonb;
  v_members  jsonb[] := '{}';
  v_inserted boolean;
begin
  -- A worker that died while listening receives no wakes. An asleep worker sends no heartbeats but still listens. In one query: each costs microseconds.
  select exists (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute')), exists (select from stint.queue q where q.admission is not null)
  into v_listening, v_limited;
  listening := v_listening;
  if v_now <= p_after then
    perform stint.too_early();
  end if;
  if v_limited then
    v_delays := stint.admit_rows(p_rows);
    if v_delays <> '{}' then
      p_rows := stint.deferred_rows(p_rows, v_delays);
    end if;
  end if;

  -- A full notification queue would fail the caller's commit. A wake is only a hint: stay silent then.
  if (v_wake or (p_notify is null and p_rows @? '$[*] ? (@.wake == true)')) and v_listening and pg_notification_queue_usage() < 0.5 then
    perform pg_notify(stint.wake_channel(), hint)
    from (
      select distinct case when r.value ? 'run_at' or r.value ? 'delay_ms' then 'due'
                           else 'ready:' || (r.value ->> 'queue') end as hint
      from jsonb_array_elements(p_rows) r
      where coalesce((r.value ->> 'wake')::boolean, v_wake)
    ) hints;
  end if;

  -- A dedupe key with a time window, and an enqueue that may have happened before, are decided by more than the live table.
  if p_rows @? '$[*] ? (exists (@.dedupe_ms) || exists (@.again) || exists (@.member) || exists (@.replace) || exists (@.order))' then
    for ordinal, v_row in
      select r.ordinality, r.value
      from jsonb_array_elements(p_rows) with ordinality r
      -- The same order as below, for the same reason.
      order by (r.value ->> 'kind') collate "C", (r.value ->> 'dedupe_key') collate "C", r.value ->> 'id'
    loop
      select e.id, e.created, e.status, e.inserted into id, created, status, v_inserted from stint.enqueue_row(v_row, v_now) e;
      if v_inserted and v_row ? 'member' then
        -- A caller must not set the other fields: only a settling job decides them.
        v_members := v_members || jsonb_set(v_row, '{member}', (v_row -> 'member') - array['chain', 'position', 'parent', 'undoes']);
      end if;
      return next;
    end loop;
    -- After all rows are written, because the jobs of a flow may be given in any order.
    for v_row in select m from unnest(v_members) m order by m ->> 'id' loop
      perform stint.join_flow((v_row ->> 'id')::uuid, v_row ->> 'kind', v_row -> 'member', (v_row ->> 'delay_ms')::bigint);
    end loop;
    if v_limited then
      perform stint.shed_surplus(array(select r.value ->> 'queue' from jsonb_array_elements(p_rows) r));
    end if;
    if clock_timestamp() > p_until then
      perform stint.too_late();
    end if;
    return;
  end if;

  for ordinal, id, created in
    with input as materialized (
      select r.*
      from rows from (jsonb_to_recordset(p_rows) as (
        id uuid, kind text, queue text, priority smallint, run_at timestamptz, delay_ms bigint,
        max_attempts integer, max_crashes integer, timeout_ms bigint, lease_ms bigint, expires_at timestamptz, expires_ms bigint,
        key text, tenant text, tags text[], dedupe_key text, dedupe_until text, meta jsonb, payload jsonb, limits text[]
      )) with ordinality as r (
        id, kind, queue, priority, run_at, delay_ms, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, expires_ms,
        key, tenant, tags, dedupe_key, dedupe_until, meta, payload, limits, ordinal
      )
    ), inserted as (
      insert into stint.job (
        id, kind, queue, state, priority, run_at, created_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at,
        key, tenant, tags, dedupe_key, dedupe_until, meta, payload, limits, has_follow_ups
      )
      select
        i.id, i.kind, i.queue,
        case when coalesce(i.run_at, v_now + i.delay_ms * interval '1 millisecond') > v_now
             then 'scheduled' else 'ready' end::stint.job_state,
        coalesce(i.priority, 0),
        coalesce(i.run_at, v_now + i.delay_ms * interval '1 millisecond', v_now),
        v_now, i.max_attempts, i.max_crashes, i.timeout_ms, i.lease_ms,
        coalesce(i.expires_at, v_now + i.expires_ms * interval '1 millisecond'),
        i.key, i.tenant, i.tags, i.dedupe_key, i.dedupe_until, i.meta,
        coalesce(i.payload, 'null'),               -- jsonb_to_recordset turns JSON null into SQL null
        i.limits, case when i.limits is not null then true end
      from input i
      -- The same order for every caller and collation: two batches with the same keys in opposite order would deadlock.
      order by i.kind collate "C", i.dedupe_key collate "C", i.id
      on conflict do nothing
      returning id, queue, kind, priority, state
    ), tallied as (
      insert into stint.tally_delta (queue, kind, priority, live, scheduled)
      select queue, kind, priority, count(*), count(*) filter (where state = 'scheduled')
      from inserted
      group by queue, kind, priority
    )
    select i.ordinal, i.id, n.id is not null
    from input i left join inserted n on n.id = i.id
    order by i.kind collate "C", i.dedupe_key collate "C", i.id
  loop
    status := 'created';
    -- A row that conflicts with an existing one is decided on its own, with a new snapshot.
    if not created then
      select e.id, e.created, e.status into id, created, status from stint.enqueue_row(p_rows -> (ordinal - 1), v_now) e;
    end if;
    return next;
  end loop;
  if v_limited then
    perform stint.shed_surplus(array(select r.value ->> 'queue' from jsonb_array_elements(p_rows) r));
  end if;
  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;
end
$$;

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
      key, tenant, tags, dedupe_key, dedupe_until, meta, payload, limits, park_reason, has_follow_ups
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
      case when v_waits then 'blocked' when v_turns then 'limit' end, case when p_row ? 'member' or p_row ? 'limits' then true end
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

    select j.id into v_other from stint.job j where j.kind = v_kind and j.dedupe_key = v_key;
    if v_other = nullif(current_setting('stint_transaction.settles', true), '')::uuid then
      -- The holder is the job that succeeds in this transaction, and this row is its successor: it takes the key over. Otherwise a series of
      -- jobs that enqueue one another would silently stop.
      update stint.job j set dedupe_key = null, dedupe_until = null where j.id = v_other;
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

-- ---- Replacing -------------------------------------------------------------------------------------

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
  where j.kind = v_kind and j.dedupe_key = v_key and (j.state in ('scheduled', 'ready', 'retrying') or j.park_reason = 'limit')
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
  values (v_job.queue, v_kind, v_job.priority, - (v_job.state = 'scheduled')::integer, 1);
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
  if v_state <> p_job.state then
    insert into stint.tally_delta (queue, kind, priority, scheduled)
    values (p_job.queue, p_job.kind, p_job.priority, case when v_state = 'scheduled' then 1 else -1 end);
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
