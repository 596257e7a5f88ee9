-- Keeping the tables in shape: partitions by day, and room for the planner.
-- oldest code: 1

-- These functions run with the owner's rights; workers may call them and need no other right. Each stops early if it would
-- have to wait for a lock, because other sessions would queue behind it. The next run tries again.

-- One partition a day, from today to `p_days` ahead. A day whose rows already went to the rest keeps them there.
create function stint.make_partitions(p_days integer) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_day  date;
  v_name text;
  v_made integer := 0;
begin
  -- Two at once would both find a day missing, and one of them would fail on the other's table.
  if not pg_try_advisory_xact_lock(hashtextextended('stint partitions', 'stint.history_done'::regclass::oid::bigint)) then
    return 0;
  end if;
  for v_day in
    select (now() at time zone 'UTC')::date + n from generate_series(0, least(greatest(p_days, 0), 60)) n
  loop
    v_name := 'history_done_' || to_char(v_day, 'YYYYMMDD');
    continue when to_regclass(format('stint.%I', v_name)) is not null;
    continue when exists (
      select from stint.history_done_rest r
      where r.finished_at >= v_day::timestamp at time zone 'UTC'
        and r.finished_at < (v_day + 1)::timestamp at time zone 'UTC');
    begin
      -- Attached rather than created in place: that would lock the whole history, and so every settling.
      execute format('create table stint.%I (like stint.history_done)', v_name);
      execute format('alter table stint.%I replica identity full', v_name);
      execute format(
        'alter table stint.history_done attach partition stint.%I for values from (%L) to (%L)',
        v_name, v_day::timestamp at time zone 'UTC', (v_day + 1)::timestamp at time zone 'UTC');
      v_made := v_made + 1;
    exception when lock_not_available then
      exit;
    end;
  end loop;
  return v_made;
end
$$;

-- Drops the days that ended before `p_before`, at most a few a call so that no lock is held for long.
create function stint.drop_partitions(p_before timestamptz) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'                         -- settling waits behind a drop that waits
as $$
declare
  v_name    text;
  v_dropped integer := 0;
begin
  -- One at a time: each that waits for the lock makes settling wait behind it.
  if not pg_try_advisory_xact_lock(hashtextextended('stint partitions', 'stint.history_done'::regclass::oid::bigint)) then
    return 0;
  end if;
  for v_name in
    select c.relname
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'stint.history_done'::regclass
      and c.relname ~ '^history_done_[0-9]{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (p_before at time zone 'UTC')::date
    order by c.relname
    limit 5
  loop
    begin
      execute format('drop table if exists stint.%I', v_name);
      v_dropped := v_dropped + 1;
    exception when lock_not_available then
      exit;
    end;
  end loop;
  return v_dropped;
end
$$;

-- Keeps the table of live jobs at 2 MB or more. A queue that is empty for a moment is an empty table to the planner, which
-- then scans and sorts all of it rather than use an index; and a prepared statement keeps that plan when a
-- million jobs arrive a second later. Rows that come and go in one transaction leave their pages behind.
create function stint.make_room() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if pg_relation_size('stint.job') < 2000000 then
    insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
    -- Ids before any that a clock makes: a search begins with the newest ids, and would walk the dead rows.
    select ('00000000' || substr(gen_random_uuid()::text, 9))::uuid, '-', '-', 'parked', now(), now(), to_jsonb(repeat('.', 1700))
    from generate_series(1, 1024);
    delete from stint.job where kind = '-';        -- no kind can have that name
  end if;
end
$$;

select stint.make_partitions(3);
select stint.make_room();

select stint.revoke_new_functions();
