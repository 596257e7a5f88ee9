-- Flows: jobs that wait for other jobs, continue one another, or are declared together.
-- oldest code: 1

-- ---- Tables ----------------------------------------------------------------------------------------

-- A graph of jobs. One is declared by flow() or batch(), or begins when a job is continued or another job waits for it; its id is then the id of
-- that job.
create table stint.flow (
  id             uuid primary key,
  name           text,
  created_at     timestamptz not null default clock_timestamp(),
  compensates    boolean not null default false,   -- a part has a compensation: the first failure stops the flow
  stopped_at     timestamptz,                      -- a part failed, or the flow was cancelled: no part starts any more
  reason         text,                             -- why it was stopped
  compensated_at timestamptz,                      -- the compensations were enqueued
  constraint flow_name_has_1_to_128_characters check (length(name) between 1 and 128)
);
create index flow_created on stint.flow (created_at, id);

-- The jobs of flows. Every job that is here has `has_follow_ups`, so that the statement that ends it calls run_follow_ups.
create table stint.flow_job (
  job_id     uuid primary key,
  flow_id    uuid not null,
  kind       text not null,
  name       text,                                 -- in the declaration of the flow
  chain_id   uuid,                                 -- the first job of its chain; null: it is the first
  position   integer not null default 0,           -- in its chain
  last_id    uuid,                                 -- of a first job that was continued: the newest job of the chain
  parent_id  uuid,                                 -- the job that spawned it
  undoes     uuid,                                 -- the job that this one compensates
  pending    integer not null default 0,           -- the jobs it still waits for
  on_failure text not null default 'park' check (on_failure in ('park', 'cancel', 'run')),
  is_open    boolean not null default false,       -- the callback of a batch that takes more jobs: `pending` is one more
  delay_ms   bigint,                               -- counted from the moment it waits for nothing more
  compensate jsonb,                                -- the job that undoes it, as enqueue_row takes it
  state      stint.job_state,                      -- how it ended; null: it is live
  ended_at   timestamptz,
  result     jsonb,                                -- only where a compensation needs it
  refused    text,                                 -- why its continuation could not be enqueued
  unchecked  boolean                               -- it waits for others, and its transaction has not committed; see check_waiting
) with (fillfactor = 80);
create index flow_job_flow on stint.flow_job (flow_id, job_id);
create index flow_job_live on stint.flow_job (flow_id) where state is null;
create index flow_job_parent on stint.flow_job (parent_id) where parent_id is not null;
create index flow_job_refused on stint.flow_job (job_id) where refused is not null;
create index flow_job_undoes on stint.flow_job (job_id) where undoes is not null;
create index flow_job_unchecked on stint.flow_job (job_id) where unchecked;

-- What a job waits for, and what came of it. Results are copied here when the job that is waited for ends: the history is dropped by day.
create table stint.flow_edge (
  job_id  uuid not null,                           -- the job that waits
  ordinal integer not null,
  on_id   uuid not null,                           -- the first job of the chain that it waits for
  kind    text not null,                           -- of that job
  state   stint.job_state,                         -- how the chain ended; null: it has not ended
  result  jsonb,
  reason  text,
  primary key (job_id, ordinal)
) with (fillfactor = 80);
create index flow_edge_on on stint.flow_edge (on_id);

-- ---- Joining a flow --------------------------------------------------------------------------------

-- The chain that a job belongs to. `state` is how the chain ended; null: it has not ended. `head` is null if there is no such job.
--
-- With `p_lock`, the newest job of the chain is locked as a foreign key locks the row it refers to: it cannot end or be replayed before this
-- transaction does. The chain becomes a flow, if it is none.
create function stint.find_chain(
  p_id uuid, p_lock boolean,
  out head uuid, out flow_id uuid, out kind text, out state stint.job_state, out result jsonb, out reason text
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_first stint.flow_job;
  v_last  uuid;
  v_flag  boolean;
begin
  for try in 1 .. 20 loop
    -- Not the first time: it was continued, settled or replayed between two of these statements, or it does not exist.
    kind := null;
    state := null;
    select coalesce(m.chain_id, m.job_id) into head from stint.flow_job m where m.job_id = p_id;
    head := coalesce(head, p_id);
    select m.* into v_first from stint.flow_job m where m.job_id = head;
    v_last := coalesce(v_first.last_id, head);

    if p_lock then
      select j.kind, j.has_follow_ups into kind, v_flag from stint.job j where j.id = v_last for key share;
      if found and v_flag is null then
        update stint.job j set has_follow_ups = true where j.id = v_last;
      end if;
    else
      select j.kind into kind from stint.job j where j.id = v_last;
    end if;
    exit when kind is not null;

    select h.kind, h.state, h.result, h.reason into kind, state, result, reason from stint.history h where h.id = v_last limit 1;
    if p_lock and state <> 'succeeded' then
      perform from stint.history h where h.id = v_last for key share;
      continue when not found;
    end if;
    if kind is not null and v_last is not distinct from coalesce((select m.last_id from stint.flow_job m where m.job_id = head), head) then
      if v_first.refused is not null then
        state := 'dead';
        result := null;
        reason := v_first.refused;
      end if;
      exit;
    end if;
    kind := null;
  end loop;

  if kind is null then
    head := null;
    return;
  end if;
  if v_first.job_id is not null then
    flow_id := v_first.flow_id;
    kind := v_first.kind;
    return;
  end if;
  flow_id := head;
  if p_lock then
    insert into stint.flow (id) values (head) on conflict do nothing;
    insert into stint.flow_job (job_id, flow_id, kind, state, ended_at)
    values (head, head, kind, state, case when state is not null then clock_timestamp() end)
    on conflict do nothing;
  end if;
end
$$;

-- Make a job that was just written a part of its flow. `p_member` says how: flow (id, name, compensates), name, after, on_failure, open, compensate,
-- chain, position, parent, undoes. A job that waits for others was written as parked; it becomes ready here if all of them have ended already.
create function stint.join_flow(p_id uuid, p_kind text, p_member jsonb, p_delay_ms bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flow    uuid := (p_member #>> '{flow,id}')::uuid;
  v_policy  text := coalesce(p_member ->> 'on_failure', 'park');
  v_pending integer := 0;
  v_failed  text;
  v_on      uuid;
  v_ordinal integer;
  v_chain   record;
  v_waits   boolean := coalesce(jsonb_array_length(p_member -> 'after') > 0, false);
begin
  -- Nothing is locked here: this transaction may stay open, and a worker that settles one of these jobs must not wait for it. check_waiting looks
  -- again at its commit.
  for v_on, v_ordinal in
    select a.value::uuid, a.ordinality
    from jsonb_array_elements_text(coalesce(p_member -> 'after', '[]')) with ordinality a
    order by a.ordinality
  loop
    select c.* into v_chain from stint.find_chain(v_on, p_lock => false) c;
    if v_chain.head is null then
      perform stint.refuse_waiting(v_on);
    elsif v_chain.head = p_id or v_chain.head = (p_member ->> 'chain')::uuid or v_chain.head = (p_member ->> 'parent')::uuid then
      raise exception 'stint: job % cannot wait for itself', p_id
        using errcode = '22023', detail = v_on::text, hint = 'The jobs it waits for must be able to end before it starts. Nothing was enqueued.';
    end if;
    insert into stint.flow_edge (job_id, ordinal, on_id, kind, state, result, reason)
    values (p_id, v_ordinal, v_chain.head, v_chain.kind, v_chain.state, v_chain.result, v_chain.reason);
    v_flow := coalesce(v_flow, v_chain.flow_id);
    if v_chain.state is null or (v_policy <> 'run' and v_chain.state <> 'succeeded') then
      v_pending := v_pending + 1;
    end if;
    if v_chain.state in ('dead', 'cancelled') then
      v_failed := coalesce(v_failed, stint.failed_dependency(v_chain.kind, v_chain.head, v_chain.state));
    end if;
  end loop;
  v_flow := coalesce(v_flow, p_id);
  v_pending := v_pending + case when p_member ? 'open' then 1 else 0 end;

  if v_flow = p_id or p_member ? 'flow' then
    insert into stint.flow (id, name, compensates)
    values (v_flow, p_member #>> '{flow,name}', coalesce((p_member #>> '{flow,compensates}')::boolean, false))
    on conflict do nothing;
  end if;
  insert into stint.flow_job (
    job_id, flow_id, kind, name, chain_id, position, parent_id, undoes, pending, on_failure, is_open, delay_ms, compensate, unchecked)
  values (
    p_id, v_flow, p_kind, p_member ->> 'name', (p_member ->> 'chain')::uuid, coalesce((p_member ->> 'position')::integer, 0),
    (p_member ->> 'parent')::uuid, (p_member ->> 'undoes')::uuid, v_pending, v_policy, p_member ? 'open', p_delay_ms, p_member -> 'compensate',
    nullif(v_waits, false))
  -- Another job of the same enqueue may have begun to wait for this one before it joined.
  on conflict (job_id) do update
  set flow_id = excluded.flow_id, name = excluded.name, pending = excluded.pending, on_failure = excluded.on_failure, is_open = excluded.is_open,
      delay_ms = excluded.delay_ms, compensate = excluded.compensate, unchecked = excluded.unchecked;
  if p_member ? 'compensate' and not v_waits then
    update stint.flow f set compensates = true where f.id = v_flow and not f.compensates;
  end if;

  if stint.waits(p_member) then
    if v_failed is not null and v_policy = 'cancel' then
      perform stint.cancel_waiting(array[p_id], v_failed);
    elsif v_pending = 0 then
      perform stint.unblock(array[p_id]);
    elsif v_failed is not null and v_policy = 'park' then
      update stint.job j set reason = v_failed where j.id = p_id;
    end if;
  end if;
end
$$;

create function stint.refuse_waiting(p_on uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: no job % exists, so no job can wait for it', p_on
    using errcode = 'ST003', detail = p_on::text, hint = 'It was never committed, or it was pruned. Nothing was enqueued.';
end
$$;

-- At the commit of a transaction that enqueued jobs that wait for others: what they wait for may have ended since then, and from here on it cannot end
-- unnoticed. The chains are locked for the length of the commit, in the order of their ids: two transactions that lock the same chains in opposite
-- order would deadlock. So the first call checks all new jobs of the transaction. No other session sees them yet, and this one sees no others.
create function stint.check_waiting() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new     uuid[];
  v_on      uuid;
  v_chain   record;
  v_heads   uuid[];
  v_states  stint.job_state[];
  v_results jsonb[];
  v_reasons text[];
begin
  if not exists (select from stint.flow_job m where m.job_id = new.job_id and m.unchecked) then
    return null;
  end if;
  select array_agg(m.job_id) into v_new from stint.flow_job m where m.unchecked;

  for v_on in select distinct e.on_id from stint.flow_edge e where e.job_id = any (v_new) order by e.on_id loop
    select c.* into v_chain from stint.find_chain(v_on, p_lock => true) c;
    if v_chain.head is null then
      perform stint.refuse_waiting(v_on);
    end if;
    if v_chain.state is not null then
      v_heads := array_append(v_heads, v_chain.head);
      v_states := array_append(v_states, v_chain.state);
      v_results := array_append(v_results, v_chain.result);
      v_reasons := array_append(v_reasons, v_chain.reason);
    end if;
  end loop;

  -- Dead jobs that were replayed since then. Looked for once: a job may wait for ten thousand others.
  if exists (select from stint.flow_edge e where e.job_id = any (v_new) and e.state in ('dead', 'cancelled')) then
    with reopened as (
      update stint.flow_edge e
      set state = null, result = null, reason = null
      from stint.flow_job m
      where e.job_id = any (v_new) and e.state in ('dead', 'cancelled') and m.job_id = e.job_id and m.on_failure = 'park'
        and not exists (
          select from unnest(v_heads, v_states) as c (head, state) where c.head = e.on_id and c.state = e.state)
      returning e.job_id
    )
    update stint.job j set reason = null from reopened r where j.id = r.job_id and j.park_reason = 'blocked';
  end if;

  update stint.flow f set compensates = true
  where not f.compensates and f.id in (
    select m.flow_id from stint.flow_job m where m.job_id = any (v_new) and m.compensate is not null);
  update stint.flow_job m set unchecked = null where m.job_id = any (v_new);
  if v_heads is not null then
    perform stint.wake(stint.resolve_edges(v_heads, v_states, v_results, v_reasons));
  end if;
  return null;
end
$$;

create constraint trigger check_waiting after insert or update on stint.flow_job
deferrable initially deferred
for each row when (new.unchecked)
execute function stint.check_waiting();

create function stint.failed_dependency(p_kind text, p_id uuid, p_state stint.job_state) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select format('it waits for %s %s, which is %s', p_kind, p_id, p_state)
$$;

-- ---- When a job ends -------------------------------------------------------------------------------

-- Make jobs ready that wait for nothing more, or scheduled if they have a delay or a later time. Returns the hints for workers.
create function stint.unblock(p_ids uuid[]) returns text[]
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  with freed as (
    update stint.job j
    set state = case when t.run_at > clock_timestamp() then 'scheduled' else 'ready' end::stint.job_state,
        run_at = t.run_at, park_reason = null, park_until = null, reason = null
    from unnest(p_ids) as i (id)
    join stint.flow_job m on m.job_id = i.id
    -- Not before now: a job that has waited for long must not pass those that were ready before it.
    cross join lateral (
      select greatest(b.run_at, clock_timestamp() + coalesce(m.delay_ms, 0) * interval '1 millisecond') as run_at
      from stint.job b where b.id = i.id
    ) t
    where j.id = i.id and j.state = 'parked' and j.park_reason = 'blocked'
    returning j.queue, j.kind, j.priority, j.state
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, parked, scheduled)
    select queue, kind, priority, -count(*), count(*) filter (where state = 'scheduled')
    from freed
    group by queue, kind, priority
  )
  select array(select distinct case when state = 'ready' then 'ready:' || queue else 'due' end from freed)
$$;

-- Cancel jobs that are not running, and ask for the end of those that are. Returns the ids of the jobs that ended.
create function stint.cancel_waiting(p_ids uuid[], p_reason text) returns uuid[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
begin
  with asked as (
    update stint.job j set cancel_requested = true
    where j.id = any (p_ids) and j.state = 'running'
  ), gone as (
    delete from stint.job j
    where j.id = any (p_ids) and j.state <> 'running'
    returning j.*
  ), ended as (
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults, epoch, run, lease_id, worker,
      claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, reason, meta, payload, result, log, limits)
    select
      id, kind, queue, 'cancelled', priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults, epoch, run, lease_id, worker,
      claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, p_reason, meta, payload, null, log, limits
    from gone
  ), tallied as (
    insert into stint.tally_delta (queue, kind, priority, live, scheduled, retrying, parked)
    select queue, kind, priority, -count(*), -count(*) filter (where state = 'scheduled'), -count(*) filter (where state = 'retrying'),
      -count(*) filter (where state = 'parked')
    from gone
    group by queue, kind, priority
  ), noted as (
    update stint.flow_job m set state = 'cancelled', ended_at = clock_timestamp()
    from gone where m.job_id = gone.id
  )
  select array_agg(id) into v_ended from gone;
  if v_ended is null then
    return '{}';
  end if;
  perform stint.wake(stint.free_places(v_ended, array_fill('cancelled'::stint.job_state, array[cardinality(v_ended)])));
  return v_ended;
end
$$;

-- Cancel the children that cancelled jobs waited for, with all that waits for them in turn. Returns the hints for workers.
--
-- A child that another session has locked is skipped, because the settle of a child takes the child first and the parent next: to wait for it could
-- deadlock. A claim or a renewal ends soon, so it is tried again for a moment. A settle ends the child by itself, or sees at its own end that the
-- parent was cancelled.
create function stint.cancel_children(p_parents uuid[], p_reason text) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hints    text[] := '{}';
  v_children uuid[];
  v_free     uuid[];
  v_ended    uuid[];
begin
  for try in 1 .. 20 loop
    select array_agg(c.job_id) into v_children
    from stint.flow_job c
    join stint.flow_job p on p.job_id = c.parent_id and p.state = 'cancelled'
    join stint.flow_edge e on e.job_id = c.parent_id and e.on_id = coalesce(c.chain_id, c.job_id) and e.state is null
    join stint.job j on j.id = c.job_id and not j.cancel_requested
    where c.parent_id = any (p_parents) and c.state is null;
    exit when v_children is null;
    select array_agg(l.id) into v_free
    from (select j.id from stint.job j where j.id = any (v_children) order by j.id for update skip locked) l;
    if v_free is not null then
      v_ended := stint.cancel_waiting(v_free, p_reason);
      perform stint.lift_latest(v_ended);
      v_hints := v_hints || case when cardinality(v_ended) < cardinality(v_free) then array['cancel'] else '{}' end
        || stint.cancel_children(v_ended, p_reason);
      v_hints := v_hints || coalesce((
        select stint.resolve_edges(
          array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(p_reason))
        from stint.flow_job m
        where m.job_id = any (v_ended)
        having count(*) > 0), '{}');
    end if;
    exit when cardinality(v_free) = cardinality(v_children);
    perform pg_sleep(0.01);
  end loop;
  return v_hints;
end
$$;

-- Chains have ended: pass their results to the jobs that wait for them, make those ready that wait for nothing more, and cancel those whose
-- policy says so, with all that waits for them in turn. Waiting jobs are locked in the order of their ids, first their rows of `job`, then those
-- of `flow_job`: two batches that end jobs with the same dependents cannot deadlock, and none misses the other's count.
create function stint.resolve_edges(p_heads uuid[], p_states stint.job_state[], p_results jsonb[], p_reasons text[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hints   text[] := '{}';
  v_waiting uuid[];
  v_free    uuid[];
  v_stuck   uuid[];
  v_doomed  uuid[];
  v_reasons text[];
begin
  loop
    select array_agg(w.job_id order by w.job_id) into v_waiting
    from (
      select distinct e.job_id
      from unnest(p_heads) as h (id)
      join stint.flow_edge e on e.on_id = h.id
      where e.state is null
    ) w;
    exit when v_waiting is null;
    perform from stint.job j where j.id = any (v_waiting) order by j.id for update;
    perform from stint.flow_job m where m.job_id = any (v_waiting) order by m.job_id for update;

    with ended as (
      select * from unnest(p_heads, p_states, p_results, p_reasons) as e (head, state, result, reason)
    ), edges as (
      update stint.flow_edge e
      set state = n.state, result = n.result, reason = n.reason
      from ended n
      where e.on_id = n.head and e.state is null
      returning e.job_id, e.kind, e.on_id, e.state
    ), counted as (
      select job_id, count(*) as ended, count(*) filter (where state = 'succeeded') as succeeded,
        min(stint.failed_dependency(kind, on_id, state)) filter (where state <> 'succeeded') as failed
      from edges
      group by job_id
    ), members as (
      update stint.flow_job m
      set pending = m.pending - case when m.on_failure = 'run' then c.ended else c.succeeded end
      from counted c
      where m.job_id = c.job_id
      returning m.job_id, m.pending, m.on_failure, m.state, c.failed
    )
    select
      array_agg(job_id) filter (where pending <= 0),
      array_agg(job_id) filter (where failed is not null and on_failure = 'park'),
      array_agg(job_id) filter (where failed is not null and on_failure = 'cancel'),
      array_agg(failed) filter (where failed is not null and on_failure = 'cancel')
    into v_free, v_stuck, v_doomed, v_reasons
    from members
    where state is null;

    if v_free is not null then
      v_hints := v_hints || stint.unblock(v_free);
    end if;
    if v_stuck is not null then
      update stint.job j
      set reason = (
        select min(stint.failed_dependency(e.kind, e.on_id, e.state)) from stint.flow_edge e where e.job_id = j.id and e.state in ('dead', 'cancelled'))
      where j.id = any (v_stuck) and j.park_reason = 'blocked';
    end if;
    exit when v_doomed is null;
    v_doomed := stint.cancel_waiting(v_doomed, v_reasons[1]);
    perform stint.lift_latest(v_doomed);
    v_hints := v_hints || stint.cancel_children(v_doomed, 'the job that waits for it was cancelled');
    select array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(v_reasons[1])
    into p_heads, p_states, p_results, p_reasons
    from stint.flow_job m
    where m.job_id = any (v_doomed);
    exit when p_heads is null;
  end loop;
  return v_hints;
end
$$;

-- What a handler asked for with its outcome: {"next": row} continues the chain, {"spawn": [rows]} adds children, {"wait": policy} parks the job until
-- they have ended.
create function stint.run_plan(p_id uuid, p_plan jsonb, p_now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_self   stint.flow_job;
  v_kind   text := p_plan ->> 'kind';
  v_next   jsonb := p_plan -> 'next';
  v_id     uuid := (v_next ->> 'id')::uuid;
  v_child  jsonb;
  v_count  integer := 0;
  v_before integer;
begin
  select m.* into v_self from stint.flow_job m where m.job_id = p_id;
  if not found then
    insert into stint.flow (id) values (p_id) on conflict do nothing;
    insert into stint.flow_job (job_id, flow_id, kind) values (p_id, p_id, v_kind) returning * into v_self;
  end if;

  for v_child in select c.value from jsonb_array_elements(coalesce(p_plan -> 'spawn', '[]')) with ordinality c order by c.ordinality loop
    perform stint.enqueue_member(
      v_child, jsonb_build_object('flow', jsonb_build_object('id', v_self.flow_id), 'parent', p_id), p_now);
  end loop;

  if p_plan ? 'wait' then
    select coalesce(max(e.ordinal), 0) into v_before from stint.flow_edge e where e.job_id = p_id;
    insert into stint.flow_edge (job_id, ordinal, on_id, kind)
    select p_id, v_before + c.ordinality, (c.value ->> 'id')::uuid, c.value ->> 'kind'
    from jsonb_array_elements(coalesce(p_plan -> 'spawn', '[]')) with ordinality c;
    get diagnostics v_count = row_count;
    update stint.flow_job m set pending = v_count, on_failure = p_plan ->> 'wait', delay_ms = null where m.job_id = p_id;
    update stint.job j set has_follow_ups = true where j.id = p_id;
    if v_count = 0 then
      perform stint.unblock(array[p_id]);
    end if;
  end if;

  if v_next is not null then
    perform stint.enqueue_member(
      -- The chain holds its key until it ends. The key is free: its job was deleted by the statement that calls this.
      v_next || case when v_next ->> 'kind' = v_kind and p_plan ? 'dedupe_key'
        then jsonb_build_object('dedupe_key', p_plan ->> 'dedupe_key', 'dedupe_until', 'finished') else '{}' end,
      jsonb_strip_nulls(jsonb_build_object(
        'flow', jsonb_build_object('id', v_self.flow_id), 'name', v_self.name, 'chain', coalesce(v_self.chain_id, p_id),
        'position', v_self.position + 1, 'parent', v_self.parent_id)),
      p_now);
    update stint.flow_job m set last_id = v_id where m.job_id = coalesce(v_self.chain_id, p_id);
  end if;
end
$$;

-- Enqueue a row as a part of a flow, whatever else its own `member` says.
create function stint.enqueue_member(p_row jsonb, p_member jsonb, p_now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row jsonb := p_row || jsonb_build_object('member', coalesce(p_row -> 'member', '{}') || p_member);
begin
  perform from stint.enqueue_row(v_row, p_now);
  perform stint.join_flow((v_row ->> 'id')::uuid, v_row ->> 'kind', v_row -> 'member', (v_row ->> 'delay_ms')::bigint);
end
$$;

-- What must commit with the end of an attempt. Every statement in which a job leaves `running`, or ends, calls this for those of its jobs that
-- have follow-ups, and for no others, with the state each job came to. `p_plans` is what their handlers asked for.
create function stint.run_follow_ups(
  p_ids uuid[], p_states stint.job_state[], p_results jsonb[] default null, p_reasons text[] default null, p_plans jsonb[] default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_hints   text[] := '{}';
  v_id      uuid;
  v_plan    jsonb;
  v_all     boolean := true;
  v_error   text;
  v_heads   uuid[];
  v_states  stint.job_state[];
  v_results jsonb[];
  v_reasons text[];
  v_parts   uuid[];
  v_parents uuid[];
  v_failed  text;
  v_stop    text[];
  v_ended   uuid[];
begin
  perform stint.follow_up_runs(p_ids, case when p_plans is null then p_states else array(
    select case when e.plan ? 'cancelled' and e.state in ('succeeded', 'dead') then 'cancelled' else e.state end
    from unnest(p_ids, p_states, p_plans) with ordinality as e (id, state, plan, ordinality)
    order by e.ordinality) end);
  -- A flow that is being stopped holds this lock: what this statement decides must not be decided before that.
  perform from stint.flow f
  where f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids)) and not f.compensates
  order by f.id for share;
  perform from stint.flow f
  where f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids)) and f.compensates
  order by f.id for update;

  -- A part of a stopped flow neither goes on nor runs again.
  select array_agg(m.job_id) into v_parts
  from stint.flow_job m join stint.flow f on f.id = m.flow_id
  where m.job_id = any (p_ids) and m.undoes is null and f.stopped_at is not null;
  if v_parts is not null then
    perform stint.cancel_waiting(array(
      select e.id from unnest(p_ids, p_states) as e (id, state) where e.id = any (v_parts) and e.state not in ('succeeded', 'dead', 'cancelled')
    ), 'its flow was stopped');
    select
      array_agg(case when e.id = any (v_parts) and e.state not in ('succeeded', 'dead') then 'cancelled' else e.state end order by e.ordinality),
      array_agg(case when e.id = any (v_parts) then null else e.plan end order by e.ordinality)
    into p_states, p_plans
    from unnest(p_ids, p_states, coalesce(p_plans, '{}')) with ordinality as e (id, state, plan, ordinality);
  end if;

  if p_plans is not null then
    -- One subtransaction for all: many in one transaction slow down the whole server.
    begin
      for v_id, v_plan in
        select p.id, p.plan from unnest(p_ids, p_plans) as p (id, plan) where p.plan ?| array['next', 'spawn', 'wait'] order by p.id
      loop
        perform stint.run_plan(v_id, v_plan, v_now);
      end loop;
    exception
      when data_exception or integrity_constraint_violation or sqlstate 'ST003' then
        v_all := false;
    end;
    if not v_all then
      for v_id, v_plan in
        select p.id, p.plan from unnest(p_ids, p_plans) as p (id, plan) where p.plan ?| array['next', 'spawn', 'wait'] order by p.id
      loop
        begin
          perform stint.run_plan(v_id, v_plan, v_now);
        exception
          -- A row that the table refuses. It must not refuse the outcome of its job, so the chain ends here, for all to see.
          when data_exception or integrity_constraint_violation or sqlstate 'ST003' then
            v_error := left('its continuation was refused: ' || sqlerrm, 1000);
            insert into stint.flow (id) values (v_id) on conflict do nothing;
            insert into stint.flow_job (job_id, flow_id, kind) values (v_id, v_id, v_plan ->> 'kind') on conflict do nothing;
            update stint.flow_job m set refused = v_error
            where m.job_id = v_id or m.job_id = (select c.chain_id from stint.flow_job c where c.job_id = v_id);
            -- It waits for children that do not exist: a person must decide.
            update stint.job j set park_reason = 'review', reason = v_error where j.id = v_id and j.park_reason = 'blocked';
        end;
      end loop;
    end if;
    -- A cancel was requested while the handler ran. The job has succeeded, but its chain must not go on.
    if exists (select from unnest(p_plans) as p (plan) where p.plan ? 'cancelled' and p.plan ? 'next') then
      v_ended := stint.cancel_waiting(array(
        select (p.plan #>> '{next,id}')::uuid from unnest(p_plans) as p (plan) where p.plan ? 'cancelled' and p.plan ? 'next'
      ), 'its chain was cancelled');
      p_ids := p_ids || v_ended;
      p_states := p_states || array_fill('cancelled'::stint.job_state, array[cardinality(v_ended)]);
      p_reasons := coalesce(p_reasons, array_fill(null::text, array[cardinality(p_ids) - cardinality(v_ended)]))
        || array_fill('its chain was cancelled'::text, array[cardinality(v_ended)]);
    end if;
    select array_agg('ready:' || q.queue) into v_hints
    from (
      select distinct j.queue from stint.job j
      where j.id in (
        select (r.value ->> 'id')::uuid
        from unnest(p_plans) as p (plan)
        cross join lateral jsonb_array_elements(
          coalesce(p.plan -> 'spawn', '[]') || coalesce(jsonb_build_array(p.plan -> 'next'), '[]')) r
        where r.value <> 'null') and j.state = 'ready'
    ) q;
    v_hints := coalesce(v_hints, '{}');
  end if;

  update stint.flow_job m
  set state = e.state, ended_at = v_now, result = case when m.compensate is not null then e.result end
  from unnest(p_ids, p_states, coalesce(p_results, '{}')) as e (id, state, result)
  where m.job_id = e.id and e.state in ('succeeded', 'dead', 'cancelled');

  -- A chain that was continued has not ended.
  select
    array_agg(coalesce(m.chain_id, e.id)), array_agg(case when m.refused is null then e.state else 'dead' end),
    array_agg(case when m.refused is null then e.result end), array_agg(coalesce(m.refused, e.reason))
  into v_heads, v_states, v_results, v_reasons
  from unnest(p_ids, p_states, coalesce(p_results, '{}'), coalesce(p_reasons, '{}'), coalesce(p_plans, '{}')) as e (id, state, result, reason, plan)
  left join stint.flow_job m on m.job_id = e.id
  where e.state in ('succeeded', 'dead', 'cancelled')
    and (m.refused is not null or e.plan -> 'next' is null);
  if v_heads is not null then
    v_hints := v_hints || stint.resolve_edges(v_heads, v_states, v_results, v_reasons);
  end if;

  perform stint.lift_latest(array(
    select e.id from unnest(p_ids, p_states) as e (id, state) where e.state in ('succeeded', 'dead', 'cancelled')));

  -- Of a cancelled parent, and of a child whose parent was cancelled while this statement ran.
  select array_agg(distinct m.job_id) into v_parents
  from stint.flow_job m
  where m.job_id in (
      select e.id from unnest(p_ids, p_states) as e (id, state) where e.state = 'cancelled'
      union all
      select c.parent_id from stint.flow_job c where c.job_id = any (p_ids) and c.parent_id is not null)
    and m.state = 'cancelled';
  if v_parents is not null then
    v_hints := v_hints || stint.cancel_children(v_parents, 'the job that waits for it was cancelled');
  end if;

  -- The first failure of a part stops a flow that can be undone. Its parts are undone when the last of them has ended.
  for v_id in
    select f.id from stint.flow f
    where f.compensates and f.id in (select m.flow_id from stint.flow_job m where m.job_id = any (p_ids))
    order by f.id
  loop
    select min(format('%s %s is %s', m.kind, m.job_id, case when m.refused is null then m.state else 'dead' end)) into v_failed
    from stint.flow_job m
    where m.flow_id = v_id and m.job_id = any (p_ids) and m.undoes is null and (m.state in ('dead', 'cancelled') or m.refused is not null);
    if v_failed is not null and exists (select from stint.flow f where f.id = v_id and f.stopped_at is null) then
      select s.hints into v_stop from stint.stop_flow(v_id, v_failed) s;
      v_hints := v_hints || v_stop;
    end if;
    v_hints := v_hints || stint.compensate(v_id);
  end loop;

  v_hints := v_hints || stint.free_places(p_ids, p_states);
  perform stint.wake(v_hints);
  return cardinality(v_hints);
end
$$;

-- ---- Replays ---------------------------------------------------------------------------------------

-- Jobs came back from the history: what waited for them waits again, and they wait again for what has not ended.
create function stint.rejoin_flows(p_ids uuid[]) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_waiting uuid[];
begin
  select array_agg(distinct e.job_id) into v_waiting
  from stint.flow_job m
  join stint.flow_edge e on e.on_id = coalesce(m.chain_id, m.job_id)
  join stint.flow_job w on w.job_id = e.job_id
  where m.job_id = any (p_ids) and e.state is not null and (w.state is null or w.state = 'cancelled');
  perform from stint.job j where j.id = any (v_waiting || p_ids) order by j.id for update;
  perform from stint.flow_job m where m.job_id = any (v_waiting || p_ids) order by m.job_id for update;

  -- A job that has started, or may at any moment, got what it waited for.
  update stint.flow_edge e
  set state = null, result = null, reason = null
  from stint.flow_job m
  where m.job_id = any (p_ids) and e.on_id = coalesce(m.chain_id, m.job_id) and e.job_id = any (v_waiting)
    and not exists (select from stint.job j where j.id = e.job_id and j.park_reason is distinct from 'blocked');
  update stint.flow_job m set state = null, ended_at = null, refused = null where m.job_id = any (p_ids);

  update stint.flow_job m
  set pending = m.is_open::integer + (
    select count(*) from stint.flow_edge e
    where e.job_id = m.job_id and (e.state is null or (m.on_failure <> 'run' and e.state <> 'succeeded')))
  where m.job_id = any (v_waiting || p_ids);

  with blocked as (
    update stint.job j
    set state = 'parked', park_reason = 'blocked'
    from stint.flow_job m
    where j.id = any (p_ids) and m.job_id = j.id and m.pending > 0
    returning j.queue, j.kind, j.priority
  )
  insert into stint.tally_delta (queue, kind, priority, parked)
  select queue, kind, priority, count(*) from blocked group by queue, kind, priority;
  update stint.job j
  set reason = (
    select min(stint.failed_dependency(e.kind, e.on_id, e.state)) from stint.flow_edge e where e.job_id = j.id and e.state in ('dead', 'cancelled'))
  where j.id = any (v_waiting || p_ids) and j.park_reason = 'blocked';
  return 0;
end
$$;

-- ---- Pruning ---------------------------------------------------------------------------------------

-- Whether a live job waits for this one. A dead job that is waited for is not pruned: only a replay of it lets the other run.
create function stint.is_waited_for(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select
    from stint.flow_edge e
    join stint.flow_job w on w.job_id = e.job_id
    where e.on_id = coalesce((select m.chain_id from stint.flow_job m where m.job_id = p_id), p_id) and w.state is null
  )
$$;

-- Delete flows that began long ago and whose jobs have all left the history, up to a limit. Returns how many.
create function stint.prune_flows(p_keep_ms bigint, p_limit integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flow uuid;
  v_gone integer := 0;
begin
  for v_flow in
    select f.id
    from stint.flow f
    where f.created_at < stint.by_index(statement_timestamp() - p_keep_ms * interval '1 millisecond')
    order by f.created_at, f.id
    limit 20000
  loop
    exit when v_gone >= p_limit;
    -- Looked up one by one: the planner would rather read the whole history.
    continue when exists (select from stint.flow_job m where m.flow_id = v_flow and m.state is null)
      or exists (
        select from stint.flow_job m
        where m.flow_id = v_flow and (select true from stint.history h where h.id = stint.by_index(m.job_id) limit 1));
    delete from stint.flow_edge e where e.job_id in (select m.job_id from stint.flow_job m where m.flow_id = v_flow);
    delete from stint.flow_job m where m.flow_id = v_flow;
    delete from stint.flow f where f.id = v_flow;
    v_gone := v_gone + 1;
  end loop;
  return v_gone;
end
$$;

-- ---- Stopping a flow -------------------------------------------------------------------------------

-- Cancel what waits and ask for the end of what runs. Jobs that another session has locked are skipped: they are being settled, and their settle sees that
-- the flow is stopped, because it waits for the lock on the flow that the caller holds. Returns the hints for workers.
create function stint.stop_flow(p_flow uuid, p_reason text, out cancelled uuid[], out hints text[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_free  uuid[];
  v_ended uuid[];
begin
  update stint.flow f set stopped_at = clock_timestamp(), reason = p_reason where f.id = p_flow and f.stopped_at is null;
  select array_agg(l.id) into v_free
  from (
    select j.id from stint.job j
    where j.id in (select m.job_id from stint.flow_job m where m.flow_id = p_flow and m.state is null and m.undoes is null)
      and not j.cancel_requested
    order by j.id
    for update skip locked
  ) l;
  cancelled := coalesce(v_free, '{}');
  v_ended := stint.cancel_waiting(cancelled, p_reason);
  perform stint.lift_latest(v_ended);
  hints := case when cardinality(v_ended) < cardinality(cancelled) then array['cancel'] else '{}' end;
  hints := hints || coalesce((
    select stint.resolve_edges(
      array_agg(coalesce(m.chain_id, m.job_id)), array_agg('cancelled'::stint.job_state), array_agg(null::jsonb), array_agg(p_reason))
    from stint.flow_job m
    where m.job_id = any (v_ended)
    having count(*) > 0), '{}');
end
$$;

-- Undo a stopped flow once none of its parts runs: the compensations of the parts that succeeded, the latest first, each after the one before it. Each
-- gets the result of the part that it undoes. Returns the hints for workers.
create function stint.compensate(p_flow uuid) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_part  stint.flow_job;
  v_id    uuid;
  v_after uuid;
  v_first text;
begin
  if exists (select from stint.flow_job m where m.flow_id = p_flow and m.state is null and m.undoes is null) then
    return '{}';
  end if;
  update stint.flow f set compensated_at = clock_timestamp()
  where f.id = p_flow and f.compensates and f.stopped_at is not null and f.compensated_at is null;
  if not found then
    return '{}';
  end if;
  for v_part in
    select m.* from stint.flow_job m
    where m.flow_id = p_flow and m.compensate is not null and m.state = 'succeeded'
    order by m.ended_at desc, m.job_id desc
  loop
    v_id := stint.new_id();
    perform stint.enqueue_member(
      v_part.compensate || jsonb_build_object('id', v_id),
      jsonb_strip_nulls(jsonb_build_object(
        'flow', jsonb_build_object('id', p_flow), 'name', 'undo ' || coalesce(v_part.name, v_part.kind), 'undoes', v_part.job_id,
        'after', case when v_after is not null then jsonb_build_array(v_after) end)),
      clock_timestamp());
    insert into stint.flow_edge (job_id, ordinal, on_id, kind, state, result)
    values (v_id, 0, v_part.job_id, v_part.kind, 'succeeded', v_part.result);
    v_first := coalesce(v_first, v_part.compensate ->> 'queue');
    v_after := v_id;
  end loop;
  return case when v_first is null then '{}' else array['ready:' || v_first] end;
end
$$;

-- Whether a job belongs to a flow that was stopped, and is not one of its compensations. A replay would do again what was undone.
create function stint.is_stopped(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from stint.flow_job m join stint.flow f on f.id = m.flow_id
    where m.job_id = p_id and m.undoes is null and f.stopped_at is not null and f.compensates
  )
$$;

-- Cancel a flow, by its id or by that of one of its jobs. Returns how many jobs were cancelled or asked to stop; null: there is no such flow.
-- `missed` parts were locked: they are being settled, or their leases renewed. To wait for them here could deadlock, because a settle takes the
-- job first and the flow next. The caller repeats the call until none is missed.
create function stint.cancel_flow(p_id uuid, p_actor text, p_reason text, out cancelled integer, out missed integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flow    uuid := coalesce((select m.flow_id from stint.flow_job m where m.job_id = p_id), p_id);
  v_stopped record;
begin
  perform from stint.flow f where f.id = v_flow for update;
  if not found then
    return;
  end if;
  select s.* into v_stopped from stint.stop_flow(v_flow, coalesce(p_reason, 'its flow was cancelled')) s;
  insert into stint.audit (id, actor, action, reason, job_id)
  select stint.new_id(), p_actor, 'cancel', p_reason, c.id from unnest(v_stopped.cancelled) as c (id);
  perform stint.wake(v_stopped.hints || stint.compensate(v_flow));
  cancelled := cardinality(v_stopped.cancelled);
  missed := (
    select count(*)
    from stint.flow_job m
    join stint.job j on j.id = m.job_id
    where m.flow_id = v_flow and m.state is null and m.undoes is null and not j.cancel_requested);
end
$$;

-- ---- Batches ---------------------------------------------------------------------------------------

-- The callback of an open batch, locked in the order of all that count down its jobs.
create function stint.lock_batch(p_flow uuid) returns stint.flow_job
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job;
begin
  select m.* into v_callback from stint.flow_job m where m.flow_id = p_flow and m.name = 'onComplete' and m.chain_id is null limit 1;
  perform from stint.job j where j.id = v_callback.job_id for update;
  select m.* into v_callback from stint.flow_job m where m.job_id = v_callback.job_id for update;
  return v_callback;
end
$$;

-- Add jobs to an open batch. Rows whose id is there already were added by an earlier call whose result was lost.
create function stint.add_to_batch(p_flow uuid, p_rows jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job := stint.lock_batch(p_flow);
  v_row      jsonb;
  v_last     integer;
  v_new      integer := 0;
begin
  select coalesce(max(e.ordinal), 0) into v_last from stint.flow_edge e where e.job_id = v_callback.job_id;
  for v_row in select r.value from jsonb_array_elements(p_rows) with ordinality r order by r.ordinality loop
    continue when exists (select from stint.flow_job m where m.job_id = (v_row ->> 'id')::uuid);
    if v_callback.is_open is not true or v_callback.state is not null then
      raise exception 'stint: batch % is closed', p_flow
        using errcode = 'ST004', detail = p_flow::text, hint = 'Nothing was enqueued. Make it with open: true, and close it after the last job was added.';
    end if;
    perform stint.enqueue_member(v_row, jsonb_build_object('flow', jsonb_build_object('id', p_flow)), clock_timestamp());
    v_new := v_new + 1;
    insert into stint.flow_edge (job_id, ordinal, on_id, kind)
    values (v_callback.job_id, v_last + v_new, (v_row ->> 'id')::uuid, v_row ->> 'kind');
  end loop;
  update stint.flow_job m set pending = m.pending + v_new where m.job_id = v_callback.job_id;
  perform stint.wake(array(select distinct 'ready:' || (r.value ->> 'queue') from jsonb_array_elements(p_rows) r));
end
$$;

create function stint.close_batch(p_flow uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_callback stint.flow_job := stint.lock_batch(p_flow);
begin
  if v_callback.job_id is null then
    raise exception 'stint: there is no batch %', p_flow using errcode = 'ST003', detail = p_flow::text, hint = 'Nothing was changed.';
  end if;
  if v_callback.is_open then
    update stint.flow_job m set is_open = false, pending = m.pending - 1 where m.job_id = v_callback.job_id;
    if v_callback.pending = 1 then
      perform stint.wake(stint.unblock(array[v_callback.job_id]));
    end if;
  end if;
end
$$;

revoke all on all functions in schema stint from public;
