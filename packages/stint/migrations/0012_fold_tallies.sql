-- Folding: moves the changes of the tallies into their sums, and samples the depth of queues.
-- oldest code: 1

-- Moves unfolded deltas into the sums, samples the depth of changed queues, and rolls up the series. One session at a time, and not
-- within `p_rest_ms` of the last fold, because every worker calls it. Without `p_sample`, only arrivals are recorded. Takes about `p_most`
-- deltas, oldest first: the backlog of hours without a worker could exceed every time limit. Returns how many deltas it took; null: another
-- session is folding or has just folded.
create function stint.fold_tallies(p_rest_ms integer default 0, p_sample boolean default true, p_most integer default 200000)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off                           -- use the indexes, past dead versions, even if the plan was made when the tables were empty
as $$
declare
  v_last      stint.tally_fold;
  v_together  boolean;
  v_end       xid8;
  v_snapshot  pg_snapshot;
  v_rows      integer;
  v_folded    integer;
  v_changed   jsonb;
  v_frame     boolean;
  v_to_sample jsonb;
  v_points    jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('stint tallies', 'stint.tally'::regclass::oid::bigint)) then
    return null;
  end if;
  select f.* into v_last from stint.tally_fold f order by f.fold desc limit 1;
  -- The xids belong to another server. The second condition is for servers that hide their identifier.
  if v_last.home is distinct from stint.home() or pg_snapshot_xmax(v_last.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) then
    perform stint.recount();
    return 0;
  end if;
  if v_last.at > clock_timestamp() - p_rest_ms * interval '1 millisecond'
    and v_last.at <= clock_timestamp()             -- otherwise the clock was set back
  then
    return null;
  end if;
  perform stint.roll_up_series();
  perform stint.fold_enqueues();

  -- Whole transactions, at least one.
  select (u.xid::text::bigint + 1)::text::xid8 into v_end
  from stint.tally_delta u
  where u.xid >= stint.by_index(pg_snapshot_xmax(v_last.snapshot))
  order by u.xid
  offset p_most - 1
  limit 1;
  -- Merge once as many rows were added as there were: readers read at most twice the rows they need, and each row is written about twice.
  v_together := v_last.added > greatest(v_last.together, 100);

  with gone as (
    delete from stint.tally_delta d
    where d.ctid = any (array(
      select u.ctid
      from stint.tally_delta u
      where u.xid >= stint.by_index(pg_snapshot_xmax(v_last.snapshot)) and (v_end is null or u.xid < v_end)
      union all
      select u.ctid
      from pg_snapshot_xip(v_last.snapshot) as open (xid)
      cross join lateral (select o.ctid from stint.tally_delta o where o.xid = stint.by_index(open.xid)) u
    ))
    returning d.queue, d.kind, d.priority, d.live, d.scheduled, d.retrying, d.parked, d.dead
  ), summed as (
    select
      queue, kind, priority, count(*) as deltas, sum(live) as live, sum(scheduled) as scheduled, sum(retrying) as retrying,
      sum(parked) as parked, sum(dead) as dead, sum(greatest(live, 0)) as arrived
    from gone
    group by queue, kind, priority
  ), old_sums as (
    delete from stint.tally t
    where v_together and t.fold >= stint.by_index(v_last.base)
    returning t.queue, t.kind, t.priority, t.live, t.scheduled, t.retrying, t.parked, t.dead, t.arrived, t.fold > v_last.base as is_new
  ), folded as (
    insert into stint.tally (fold, queue, kind, priority, live, scheduled, retrying, parked, dead, arrived)
    select v_last.fold + 1, queue, kind, priority, sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead), sum(arrived)
    from (
      select
        rows.*,
        bool_or(is_new or (live, scheduled, retrying, parked, dead) <> (0, 0, 0, 0, 0)) over (partition by queue, kind) as is_kept
      from (
        select queue, kind, priority, live, scheduled, retrying, parked, dead, arrived, true as is_new from summed
        union all
        select queue, kind, priority, live, scheduled, retrying, parked, dead, arrived, is_new from old_sums
      ) rows
    ) rows
    group by queue, kind, priority
    -- Zero rows are kept so that arrival counters do not reset, except beyond a thousand rows, where names come and go. A pair is kept
    -- or dropped with all its priorities: otherwise its counter would fall, and Prometheus would count the rest again.
    having (sum(live), sum(scheduled), sum(retrying), sum(parked), sum(dead)) <> (0, 0, 0, 0, 0)
      or sum(arrived) > 0 and (v_last.together < 1000 or bool_or(is_kept))
    returning 1
  )
  select
    coalesce(sum(deltas), 0), coalesce(jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind, 'arrived', arrived)), '[]'),
    (select count(*) from folded),
    stint.folding_snapshot(v_end)                  -- in the same statement, so that it is the same snapshot
  into v_folded, v_changed, v_rows, v_snapshot
  from (select queue, kind, sum(deltas) as deltas, sum(arrived) as arrived from summed group by queue, kind) k;
  -- Also without deltas: charts carry the last sample forward, and claims and releases insert no delta.
  v_frame := p_sample and v_last.framed_at < stint.step_of(clock_timestamp(), 3600);
  if v_folded = 0 and not v_together and not v_frame and not (p_sample and (v_last.to_sample <> '[]' or exists (
    select from stint.job l where l.state = 'running' and l.lease_until >= stint.by_index('-infinity'::timestamptz)
  ))) then
    return 0;
  end if;

  if p_sample then
    -- The depth is already exact: the deltas taken above are in the sums.
    with changed as (
      -- With what the last fold did not sample and what ran at its sample: claims and releases insert no delta.
      select queue, kind, sum(arrived) as arrived
      from jsonb_to_recordset(v_changed || v_last.to_sample) as c (queue text, kind text, arrived bigint)
      group by queue, kind
    ), every as materialized (
      select d.queue, d.kind, d.priority, d.ready, d.running from stint.depth d where d.ready > 0 or d.running > 0
    ), depth as materialized (
      -- All kinds of each changed queue; other queues are unchanged. Once an hour all queues, so that charts need not look further back.
      select e.*
      from every e
      where v_frame or e.queue in (select c.queue from changed c union all select r.queue from every r where r.running > 0)
    ), oldest as (
      select q.queue, extract(epoch from clock_timestamp() - min(head.run_at)) * 1000 as ms
      from (select distinct queue, priority from depth) q
      cross join lateral (
        select r.run_at
        from stint.job r
        where r.state = 'ready' and r.queue = stint.by_index(q.queue) and r.priority = q.priority
        order by r.run_at
        limit 1
      ) head
      group by q.queue
    )
    select
      coalesce(jsonb_agg(jsonb_build_object(
        'queue', queue, 'kind', kind, 'arrived', coalesce(c.arrived, 0), 'ready', coalesce(d.ready, 0),
        'running', coalesce(d.running, 0), 'oldest_ready_ms', case when o.ms is not null then greatest(o.ms, 0) end)), '[]'),
      coalesce(jsonb_agg(jsonb_build_object('queue', queue, 'kind', kind)) filter (where d.running > 0), '[]')
    into v_points, v_to_sample
    from (select queue, kind, sum(ready) as ready, sum(running) as running from depth group by queue, kind) d
    full join changed c using (queue, kind)
    left join oldest o using (queue);
  else
    select
      coalesce(jsonb_agg(to_jsonb(c)) filter (where c.arrived > 0), '[]'),
      coalesce(jsonb_agg(distinct jsonb_build_object('queue', c.queue, 'kind', c.kind)), '[]')
    into v_points, v_to_sample
    from jsonb_to_recordset(v_changed || v_last.to_sample) as c (queue text, kind text, arrived bigint);
  end if;
  perform stint.record_series(v_points);

  delete from stint.tally_fold f where f.fold = v_last.fold;
  insert into stint.tally_fold (fold, base, together, added, snapshot, home, at, framed_at, to_sample)
  values (
    v_last.fold + 1, case when v_together then v_last.fold + 1 else v_last.base end, case when v_together then v_rows else v_last.together end,
    case when v_together then 0 else v_last.added + v_rows end, v_snapshot, v_last.home, clock_timestamp(),
    case when v_frame then clock_timestamp() else v_last.framed_at end, v_to_sample);
  return v_folded;
end
$$;

select stint.revoke_new_functions();
