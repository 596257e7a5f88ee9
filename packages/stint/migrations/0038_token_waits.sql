-- Jobs that wait for tokens of a dependency are let in, and a 429 holds all of them back.
-- oldest code: 1

-- For upkeep: makes waiting jobs ready for which there are tokens, in their order, and raises lowered concurrencies. Returns the queues of those jobs,
-- and the milliseconds until there is more to do; null: nothing waits.
create function stint.tend_dependencies(out queues text[], out next_ms float8)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of     stint.dependency;
  v_now    timestamptz;
  v_tokens bigint;
  v_quota  bigint;
  v_wait   stint.dependency_wait;
  v_job    stint.job;
begin
  queues := '{}';
  for v_of in
    select d.* from stint.dependency d where d.next_at <= clock_timestamp() order by d.next_at limit 100 for no key update skip locked
  loop
    v_now := clock_timestamp();
    if v_of.effective < (v_of.settings #>> '{concurrency,max}')::integer and v_now >= stint.raise_at(v_of) then
      update stint.dependency d set effective = d.effective + 1, raised_at = v_now where d.name = v_of.name;
      perform stint.apply_concurrency(v_of.name);
    end if;
    if (v_of.slow_until is null or v_of.slow_until <= v_now) and not stint.is_paused_dependency(v_of.name) then
      v_tokens := stint.tokens_of(v_of, v_now) - stint.reserved_of(v_of.name, v_now);
      v_quota := stint.quota_left(v_of, v_now) - stint.reserved_of(v_of.name, v_now);
      for v_wait in
        select w.*
        from stint.dependency_wait w
        where w.dependency = v_of.name and w.let_in_at is null
          and w.cost <= coalesce((v_of.settings #>> '{rate,burst}')::bigint, w.cost) and w.cost <= coalesce((v_of.settings #>> '{quota,limit}')::bigint, w.cost)
        order by w.priority, w.run_at, w.seq
        limit 1000
      loop
        exit when v_wait.cost > v_tokens or v_wait.cost > v_quota;
        select j.* into v_job from stint.job j
        where j.id = v_wait.job_id and j.state = 'parked' and j.park_reason = 'limit' for update skip locked;
        if not found then
          -- It has ended or was deleted; or another session has locked it, and it is looked at again.
          delete from stint.dependency_wait w
          where w.job_id = v_wait.job_id
            and not exists (select from stint.job j where j.id = v_wait.job_id and j.state = 'parked' and j.park_reason = 'limit');
          continue;
        end if;
        update stint.dependency_wait w set let_in_at = v_now where w.job_id = v_job.id;
        -- Not before now: claims do not look behind the jobs that they have taken.
        update stint.job j set state = 'ready', run_at = greatest(j.run_at, clock_timestamp()), park_reason = null where j.id = v_job.id;
        insert into stint.tally_delta (queue, kind, priority, parked) values (v_job.queue, v_job.kind, v_job.priority, -1);
        v_tokens := v_tokens - v_wait.cost;
        v_quota := v_quota - v_wait.cost;
        if v_job.queue <> all (queues) then
          queues := queues || v_job.queue;
        end if;
      end loop;
    end if;
    update stint.dependency d set next_at = stint.dependency_due(d.name, v_now) where d.name = v_of.name;
  end loop;
  select extract(epoch from min(d.next_at) - clock_timestamp()) * 1000 into next_ms from stint.dependency d;
end
$$;

-- A system asked for a pause of `p_ms` milliseconds: no job that calls it starts before. A job that began after the last halving of the concurrency halves
-- it; many jobs that are refused at once halve it once. A call that arrives after `p_before` changes nothing.
create function stint.slow_dependencies(p_names text[], p_ms bigint, p_since timestamptz, p_before timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of  stint.dependency;
  v_now timestamptz;
begin
  for v_of in select d.* from stint.dependency d where d.name = any (p_names) order by d.name for no key update loop
    v_now := clock_timestamp();
    exit when v_now > p_before;
    update stint.dependency d
    set slow_until = greatest(d.slow_until, v_now + p_ms * interval '1 millisecond'), next_at = v_now,
        effective = case when p_since > coalesce(d.slowed_at, '-infinity') then greatest((d.settings #>> '{concurrency,min}')::integer, d.effective / 2) else d.effective end,
        slowed_at = case when p_since > coalesce(d.slowed_at, '-infinity') then v_now else d.slowed_at end
    where d.name = v_of.name;
    perform stint.apply_concurrency(v_of.name);
  end loop;
end
$$;

revoke all on all functions in schema stint from public;
