-- Enqueueing many jobs: the two functions that every enqueue calls.
-- oldest code: 1

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
-- tallies in the same transaction.

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
  v_listeners integer;                             -- listening workers, 5 for more than 4
  v_ruled     boolean;                             -- some queue has settings beside targetAge
  v_limited   boolean := false;                    -- one of the given queues has admission settings
  v_fair      text[] := '{}';                      -- those of the given queues that are fair
  v_delays    jsonb;
  v_wake  boolean := coalesce(p_notify, current_setting('max_prepared_transactions') = '0');
  v_given integer := cardinality(p_ids);
  v_rows  integer := 0;
  -- If all jobs have one kind and one queue, their tallies need no grouping.
  v_alike boolean := p_more is null and cardinality(p_kinds) = 1 and cardinality(p_queues) = 1;
begin
  -- A worker that died while listening receives no wakes. An asleep worker sends no heartbeats but still listens. In one query: each costs microseconds.
  select
    (
      select count(*)
      from (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute') limit 5) w
    ),
    exists (select from stint.queue q where (q.admission is not null or q.fair is not null or q.aging_ms is not null) and q.name >= stint.by_index((select ''::text)))
  into v_listeners, v_ruled;
  if v_ruled then
    select r.limited, r.fair into v_limited, v_fair from stint.queue_rules(p_queues) r;
    v_alike := v_alike and v_fair = '{}';
  end if;
  -- Queues with admission settings may refuse or delay the jobs.
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
  if p_more is null and v_fair = '{}' and v_given >= 100 and pg_current_xact_id_if_assigned() is null then
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
        key, tenant, tags, meta, payload, limits, fair_tenant
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
        case when coalesce(i.queue, p_queues[1]) = any (v_fair) then coalesce(i.more ->> 'tenant', '') end
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
    perform stint.jobs_added(p_queues);
  end if;

  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;

  -- A full notification queue would fail the caller's commit. A wake is only a hint: stay silent then.
  if v_wake and v_listeners > 0 and pg_notification_queue_usage() < 0.5 then
    -- With few workers, each is woken. Most enqueues have one hint; a query for it would cost as much as all other reads of this function.
    if p_more is null and cardinality(p_queues) = 1 then
      perform pg_notify(stint.wake_channel(), case when v_listeners < 5 then 'ready:' || p_queues[1] else stint.ready_hint(p_queues[1], v_given) end);
    else
      -- The sub-selects hide the values from the planner, so that the query is planned once for a session and not for each enqueue.
      perform pg_notify(stint.wake_channel(), case
        when queue is null then 'due'
        when (select v_listeners) < 5 then 'ready:' || queue
        else stint.ready_hint(queue, jobs)
      end)
      from (
        select case when i.more ? 'run_at' or i.more ? 'delay_ms' then null else coalesce(i.queue, p_queues[1]) end as queue, count(*) as jobs
        from rows from (unnest((select p_ids)), unnest((select p_queues)), jsonb_array_elements((select p_more))) as i (id, queue, more)
        group by 1
      ) hints;
    end if;
  end if;
  return v_listeners > 0;
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
  v_listeners integer;                             -- listening workers, 5 for more than 4
  v_ruled     boolean;                             -- some queue has settings beside targetAge
  v_limited   boolean := false;                    -- one of the given queues has admission settings
  v_fair      text[] := '{}';                      -- those of the given queues that are fair
  v_delays    jsonb;
  v_wake  boolean := coalesce(p_notify, current_setting('max_prepared_transactions') = '0');
  v_row   jsonb;
  v_members  jsonb[] := '{}';
  v_inserted boolean;
  v_grown    text[] := '{}';                       -- queues with admission settings that have a job more
begin
  -- A worker that died while listening receives no wakes. An asleep worker sends no heartbeats but still listens. In one query: each costs microseconds.
  select
    (
      select count(*)
      from (select from stint.worker w where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute') limit 5) w
    ),
    exists (select from stint.queue q where (q.admission is not null or q.fair is not null or q.aging_ms is not null) and q.name >= stint.by_index((select ''::text)))
  into v_listeners, v_ruled;
  listening := v_listeners > 0;
  if v_now <= p_after then
    perform stint.too_early();
  end if;
  if v_ruled then
    select r.limited, r.fair into v_limited, v_fair from stint.queue_rules(array(select r.value ->> 'queue' from jsonb_array_elements(p_rows) r)) r;
  end if;
  if v_limited then
    v_delays := stint.admit_rows(p_rows);
    if v_delays <> '{}' then
      p_rows := stint.deferred_rows(p_rows, v_delays);
    end if;
  end if;

  -- A full notification queue would fail the caller's commit. A wake is only a hint: stay silent then.
  if (v_wake or (p_notify is null and p_rows @? '$[*] ? (@.wake == true)')) and listening and pg_notification_queue_usage() < 0.5 then
    perform pg_notify(stint.wake_channel(), case
      when queue is null then 'due'
      when (select v_listeners) < 5 then 'ready:' || queue
      else stint.ready_hint(queue, jobs)
    end)
    from (
      select case when r.value ? 'run_at' or r.value ? 'delay_ms' then null else r.value ->> 'queue' end as queue, count(*) as jobs
      from jsonb_array_elements((select p_rows)) r
      where coalesce((r.value ->> 'wake')::boolean, v_wake)
      group by 1
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
      -- A job that waits behind the running one with its key is new, too.
      if v_limited and (v_inserted or status = 'deferred' and id = (v_row ->> 'id')::uuid) then
        -- Another session may have freed its dedupe key since admit_rows found that it adds no job.
        perform stint.note_tenant(v_row, true);
        if not v_row ? 'exempt' and v_row ->> 'queue' <> all (v_grown) then
          v_grown := v_grown || (v_row ->> 'queue');
        end if;
      end if;
      return next;
    end loop;
    -- After all rows are written, because the jobs of a flow may be given in any order.
    for v_row in select m from unnest(v_members) m order by m ->> 'id' loop
      perform stint.join_flow((v_row ->> 'id')::uuid, v_row ->> 'kind', v_row -> 'member', (v_row ->> 'delay_ms')::bigint);
    end loop;
    if v_limited then
      perform stint.jobs_added(v_grown);
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
        key, tenant, tags, dedupe_key, dedupe_until, meta, payload, limits, fair_tenant
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
        i.limits, case when i.queue = any (v_fair) then coalesce(i.tenant, '') end
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
    v_inserted := created;
    -- A row that conflicts with an existing one is decided on its own, with a new snapshot.
    if not created then
      select e.id, e.created, e.status, e.inserted into id, created, status, v_inserted from stint.enqueue_row(p_rows -> (ordinal - 1), v_now) e;
    end if;
    -- Another session may have freed its dedupe key since admit_rows found that it adds no job.
    if v_limited and v_inserted and p_rows -> (ordinal - 1) ? 'dedupe_key' then
      perform stint.note_tenant(p_rows -> (ordinal - 1), true);
    end if;
    if v_limited and v_inserted and not p_rows -> (ordinal - 1) ? 'exempt' and p_rows -> (ordinal - 1) ->> 'queue' <> all (v_grown) then
      v_grown := v_grown || (p_rows -> (ordinal - 1) ->> 'queue');
    end if;
    return next;
  end loop;
  if v_limited then
    perform stint.jobs_added(v_grown);
  end if;
  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;
end
$$;

select stint.revoke_new_functions();
