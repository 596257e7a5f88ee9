-- Shares: a worker may run so many jobs under a limit without a place for each of them. While a limit has room to spare, its jobs then cost nothing more
-- than plain jobs.
-- oldest code: 1

-- A share counts in full while it is open, so open shares and places together never exceed the limit. A worker confirms its share in each claim, or after
-- it, while the claimed jobs are running in the database. A statement that needs the room closes all shares of the rule. It waits for no worker: it counts
-- the running jobs that have no place, and no claim can add to them any more. Of a closed share one row for each key holds that number, until it is 0.
create table stint.limit_share (
  name   text collate "C" not null,                -- the rule, as stint.limit names it; of a closed share also one key of it
  worker text not null,
  places integer not null,
  closed boolean not null default false,
  primary key (name, worker)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, fillfactor = 80);

-- How many places of the key are in use, or may be used, by jobs without a place of their own.
create function stint.shared(p_key text) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select coalesce(sum(s.places), 0) from stint.limit_share s where s.name in (p_key, stint.rule_of(p_key)));
end
$$;

-- Gives a worker a share of a limit, of `p_least` to `p_most` places. At most half of what the fullest key of the limit has left, so that every worker
-- finds some room. Returns the number; null: no share now. There is none while jobs wait for a place, and if one key of the limit has a limit of its own.
create function stint.take_share(p_worker text, p_rule text, p_least integer, p_most integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'
as $$
declare
  v_places integer;
begin
  -- A limit is being changed.
  if not pg_try_advisory_xact_lock_shared(hashtextextended('stint limits', 'stint.limit'::regclass::oid::bigint)) then
    return null;
  end if;
  -- Every statement that gives places holds this lock in shared mode until it commits (lock_keys). None is under way now, and the next one sees the share.
  begin
    perform pg_advisory_xact_lock(hashtextextended('stint limit shares', 'stint.limit'::regclass::oid::bigint));
  exception
    when lock_not_available then
      return null;
  end;
  -- The response to an earlier request may have been lost.
  select s.places into v_places from stint.limit_share s where s.name = p_rule and s.worker = p_worker and not s.closed;
  if v_places is not null then
    return v_places;
  end if;
  select least(p_most, (l.max - stint.shared(p_rule) - coalesce((
      select max(h.held)
      from (
        select count(*) as held from stint.limit_place p
        where p.holds and (p.key = p_rule or p.key >= p_rule || '=' and p.key < p_rule || '>')
        group by p.key
      ) h), 0)) / 2)
  into v_places
  from stint.limit l
  where l.name = p_rule
    and not exists (select from stint.limit o where o.name >= p_rule || '=' and o.name < p_rule || '>')
    and not exists (select from stint.limit_place w where not w.holds and (w.key = p_rule or w.key >= p_rule || '=' and w.key < p_rule || '>'))
    and not exists (select from stint.limit_share s where s.name = p_rule and s.closed);
  if v_places is null or v_places < p_least then
    return null;
  end if;
  insert into stint.limit_share (name, worker, places) values (p_rule, p_worker, v_places);
  return v_places;
end
$$;

-- The rules of which the worker has an open share, as a JSON array. Called in the transaction of a claim, or after it. The lock makes a statement that closes a
-- share come before or after: if after, it counts the jobs that the worker has claimed. It waits for nothing: a share that another session is closing counts
-- as closed.
create function stint.open_shares(p_worker text) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select coalesce(json_agg(open.name)::text, '[]')
    from (
      select s.name from stint.limit_share s where s.worker = p_worker and not s.closed for share skip locked
    ) open);
end
$$;

-- Closes the shares of these rules, and counts again what is left of those that are closed. The jobs of `p_ids` with the leases beside are about to take
-- places of their own, and are not counted. A share that another session has locked stays as it is. Returns whether there was any share.
create function stint.close_shares(p_rules text[], p_ids uuid[] default '{}', p_leases uuid[] default '{}') returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_rules   text[];
  v_workers text[];
  v_opened  boolean;
begin
  if not exists (select from stint.limit_share s where s.name = any (p_rules)) then
    return false;
  end if;
  with locked as materialized (
    select s.name, s.worker, s.closed from stint.limit_share s where s.name = any (p_rules) order by s.name, s.worker for update skip locked
  ), closed as (
    update stint.limit_share s set closed = true from locked l where s.name = l.name and s.worker = l.worker
  )
  select array_agg(l.name), array_agg(l.worker), bool_or(not l.closed) into v_rules, v_workers, v_opened from locked l;
  if v_rules is null then
    return true;
  end if;

  -- In a new snapshot: jobs whose share was confirmed before it was closed are running by now.
  delete from stint.limit_share s
  using unnest(v_rules, v_workers) as c (rule, worker)
  where s.worker = c.worker and (s.name = c.rule or s.name >= c.rule || '=' and s.name < c.rule || '>');
  with counted as (
    select k.key, c.rule, c.worker, count(*) as places
    from unnest(v_rules, v_workers) as c (rule, worker)
    join stint.job j on j.state = 'running' and j.worker = c.worker
    cross join lateral unnest(
      j.limits || array['queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.kind || '=' || j.tenant, 'tenant:*=' || j.tenant]) as k (key)
    where stint.rule_of(k.key) = c.rule
      and not exists (select from stint.limit_place p where p.job_id = j.id and p.key = k.key and p.holds)
      and not exists (select from unnest(p_ids, p_leases) as e (id, lease_id) where e.id = j.id and e.lease_id = j.lease_id)
    group by k.key, c.rule, c.worker
  )
  insert into stint.limit_share (name, worker, places, closed)
  select c.key, c.worker, c.places, true from counted c
  union all
  -- The row of the rule itself, by which the others are found.
  select distinct c.rule, c.worker, 0, true from counted c where not exists (select from counted d where d.key = c.rule and d.worker = c.worker);
  if v_opened then
    -- Their workers report from now on when one of those jobs has ended.
    perform stint.wake(array['limits']);
  end if;
  return true;
end
$$;

-- Marks the shares of these rules as closed, for close_shares to count. A busy worker confirms its shares most of the time, so skipping locked rows might
-- never find them free. A claim whose worker is frozen is not waited for beyond the timeout.
create function stint.wait_to_close_shares(p_rules text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
begin
  update stint.limit_share s set closed = true where s.name = any (p_rules) and not s.closed;
exception
  when lock_not_available then
    null;
end
$$;

-- A worker ends: what is left of its shares is counted again, until its last job has ended.
create function stint.leave_shares(p_worker text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update stint.limit_share s set closed = true where s.worker = p_worker and not s.closed;
  perform stint.close_shares(array(select s.name from stint.limit_share s where s.worker = p_worker and s.name !~ '='));
end
$$;

-- No worker claims jobs of these queues and kinds, which were to run next at the keys beside. Where others wait for such a key, those of this queue and kind
-- become ready without a place: they would hold up the others one after the other. Returns the other keys that places may have been left free of.
create function stint.make_way(p_keys text[], p_queues text[], p_kinds text[]) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of   record;
  v_ids  uuid[];
  v_left text[];
  v_all  text[] := '{}';
begin
  for v_of in
    select distinct u.key, u.queue, u.kind from unnest(p_keys, p_queues, p_kinds) as u (key, queue, kind)
    where u.queue is not null and exists (
      select from stint.limit_place p join stint.job j on j.id = p.job_id
      where p.key = u.key and not p.holds and (j.queue <> u.queue or j.kind <> u.kind))
    order by 1, 2, 3
  loop
    v_ids := array(
      select j.id from stint.limit_place p join stint.job j on j.id = p.job_id
      where p.key = v_of.key and not p.holds and p.ordered is null
        and j.state::text = 'parked' and j.park_reason = 'limit' and j.queue = v_of.queue and j.kind = v_of.kind
      limit 1000 for update of j skip locked);
    with gone as (
      delete from stint.limit_place p where p.job_id = any (v_ids) and p.key = v_of.key and not p.holds returning p.job_id, p.beside
    ), back as (
      update stint.job j set state = 'ready', run_at = greatest(j.run_at, clock_timestamp()), park_reason = null
      from gone where j.id = gone.job_id
      returning j.queue, j.kind, j.priority
    ), tallied as (
      insert into stint.tally_delta (queue, kind, priority, parked)
      select b.queue, b.kind, b.priority, - count(*) from back b group by b.queue, b.kind, b.priority
    )
    select array_agg(k.key) into v_left from gone cross join lateral unnest(gone.beside) as k (key);
    v_all := v_all || v_left;
  end loop;
  return v_all;
end
$$;

-- Looks again at the keys that were missed. With `p_all`, also at all others: it removes the places of jobs that no longer run (their rows were deleted by
-- hand), takes places back from ready jobs that no worker has claimed for 30 seconds, or that are paused, while others wait, and lets jobs in wherever
-- there is room. Returns whether some key has to be looked at again soon.
create function stint.tend_limits(p_all boolean) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys  text[];
  v_more  text[] := '{}';
  v_rules text[];
  v_queues text[];
  v_kinds  text[];
begin
  with missed as (
    delete from stint.limit_missed m
    where m.ctid = any (array(select f.ctid from stint.limit_missed f limit 1000 for update skip locked))
    returning m.key
  )
  select coalesce(array_agg(distinct key), '{}') into v_keys from missed;

  if p_all then
    with held as materialized (
      select p.job_id, p.key, p.at, j.id is null as is_gone
      from stint.limit_place p left join stint.job j on j.id = p.job_id
      where p.holds and p.at < clock_timestamp() - interval '5 seconds'
        and case
          when j.id is null then p.ordered is distinct from 'block' or not exists (select from stint.history_dead d where d.id = p.job_id)
          when j.state = 'running' or p.ordered is not null then false
          when j.state = 'ready' then
            exists (select from stint.limit_place w where w.key = p.key and not w.holds)
              and (p.at < clock_timestamp() - interval '30 seconds' or stint.is_claim_paused(j.queue, j.kind))
          -- Workers make room for a job in quarantine sooner than that. No worker serves its kind.
          when j.park_reason = 'quarantine' then
            j.run_at < clock_timestamp() - interval '5 minutes' and exists (select from stint.limit_place w where w.key = p.key and not w.holds)
          else j.park_reason is distinct from 'limit'
        end
    ), idle as materialized (
      -- Locked: a job that is claimed in this moment starts with the place that it holds.
      select j.id, j.queue, j.kind, j.state from stint.job j
      where j.id = any (array(select h.job_id from held h where not h.is_gone)) and j.state <> 'running'
        and j.park_reason is distinct from 'limit' and (j.park_reason is distinct from 'quarantine' or j.run_at < clock_timestamp() - interval '5 minutes')
      for update skip locked
    ), freed as (
      delete from stint.limit_place p
      using held h left join idle i on i.id = h.job_id
      where p.job_id = h.job_id and p.key = h.key and p.holds and p.at = h.at and (h.is_gone or i.id is not null)
      returning p.key, case when i.state = 'ready' then i.queue end as queue, i.kind
    )
    select coalesce(array_agg(f.key), '{}'), array_agg(f.queue), array_agg(f.kind) into v_more, v_queues, v_kinds from freed f;
    v_more := v_more || stint.make_way(v_more, v_queues, v_kinds);
  end if;

  -- Jobs without a place have ended since the shares of their workers were closed. An open share is closed late if it was being confirmed when a job found
  -- no place, or if its worker died.
  v_rules := array(
    select distinct s.name from stint.limit_share s
    where s.name !~ '=' and (
      s.closed
      or exists (select from stint.limit_place p where not p.holds and (p.key = s.name or p.key >= s.name || '=' and p.key < s.name || '>'))
      or p_all and not exists (select from stint.worker w where w.id = s.worker)));
  perform stint.wait_to_close_shares(v_rules);
  perform stint.close_shares(v_rules);
  if p_all or v_rules <> '{}' then
    v_keys := v_keys || v_more || array(
      with recursive awaited (key) as (
        (select p.key from stint.limit_place p where not p.holds order by p.key limit 1)
        union all
        select (select p.key from stint.limit_place p where not p.holds and p.key > a.key order by p.key limit 1)
        from awaited a where a.key is not null
      )
      select a.key from awaited a
      where a.key is not null and (p_all or stint.rule_of(a.key) = any (v_rules)) and not stint.is_full(a.key)
      limit 1000);
  end if;
  if v_keys <> '{}' then
    perform stint.wake(stint.let_in(array(select distinct k from unnest(v_keys) k)));
  end if;
  return exists (select from stint.limit_missed) or exists (select from stint.limit_share s where s.closed);
end
$$;
-- Planned once, and by index, as the statements of 0030.
alter function stint.tend_limits set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off;

select stint.revoke_new_functions();
