-- Flows: jobs that wait for other jobs, continue one another, or are declared together. Tables, and how a job joins a flow.
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
  if v_waits and exists (
    select from stint.flow_edge e where e.on_id = stint.by_index((select coalesce((p_member ->> 'chain')::uuid, p_id))) and e.state is null
  ) then
    perform stint.refuse_circle(p_id, coalesce((p_member ->> 'chain')::uuid, p_id));
  end if;
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

-- Refuses a circle: jobs that wait for one another never start. `p_job` has its edges by now; `p_head` is the first job of its chain. To be called only
-- if a job waits for that chain: otherwise no circle can lead back to it.
create function stint.refuse_circle(p_job uuid, p_head uuid) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ahead uuid[];
  v_at    uuid := p_head;
  v_names text[] := '{}';
begin
  with recursive ahead (head) as (
    select e.on_id from stint.flow_edge e where e.job_id = p_job and e.state is null
    union
    select e.on_id
    from ahead a
    join stint.flow_job m on m.job_id = a.head
    join stint.flow_edge e on e.job_id = coalesce(m.last_id, m.job_id) and e.state is null
  )
  select array_agg(a.head) into v_ahead from ahead a;
  if p_head <> all (v_ahead) then
    return;
  end if;
  -- From the chain back to the job that waits for it, and so on. There was no circle before, so this leads to `p_job`.
  for step in 1 .. 100 loop
    v_names := array_append(v_names, v_at::text);
    exit when exists (select from stint.flow_edge e where e.job_id = p_job and e.on_id = v_at and e.state is null);
    select coalesce(m.chain_id, m.job_id) into v_at
    from stint.flow_edge e
    join stint.flow_job m on m.job_id = e.job_id
    where e.on_id = v_at and e.state is null and coalesce(m.chain_id, m.job_id) = any (v_ahead)
    limit 1;
  end loop;
  raise exception 'stint: jobs wait for one another in a circle: % → %', array_to_string(v_names, ' → '), p_head
    using errcode = 'ST007', detail = format('jobs wait for one another in a circle: %s → %s', array_to_string(v_names, ' → '), p_head),
      hint = 'Nothing was enqueued.';
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

select stint.revoke_new_functions();
