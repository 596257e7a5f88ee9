-- Schedules: recurring rules, the ledger of the slots they have fired, and firing.
-- oldest code: 1

create table stint.schedule (
  name        text collate "C" primary key,
  owner       text,                                -- the service whose code declares it; null: made at run time
  cron        text,                                -- either a pattern on the clocks of `zone`
  every_ms    bigint,                              -- or an interval of real time, counted from start_at, else from 1970
  zone        text not null default 'UTC',
  start_at    timestamptz,                         -- no slot before it
  end_at      timestamptz,                         -- no slot after it
  jitter_ms   bigint not null default 0,           -- each slot fires up to this much later
  catch_up    text not null default 'last',
  overlap     text not null default 'allow',
  quiet_hours jsonb,
  job         jsonb not null,                      -- the job of each slot, as enqueue_rows takes it, without its id
  paused_at   timestamptz,
  -- One more at every change. Workers compute slots outside the database, and write them only for the revision they have read.
  revision    integer not null default 1,
  next_slot   timestamptz,                         -- null: a worker has yet to compute it, or there is none
  due_at      timestamptz,                         -- when a worker must act; null: paused or ended
  last_slot   timestamptz,                         -- the last slot that fired
  last_job_id uuid,
  fired       bigint not null default 0,
  missed      bigint not null default 0,           -- by catch_up: no worker ran when they were due
  skipped     bigint not null default 0,           -- by overlap: the job before had not ended
  error       text,                                -- why its slots cannot be computed or its job cannot be enqueued
  created_at  timestamptz not null default clock_timestamp(),
  updated_at  timestamptz not null default clock_timestamp(),
  updated_by  text not null,
  constraint schedule_name_has_1_to_128_characters check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$'),
  constraint schedule_has_cron_or_every check (num_nonnulls(cron, every_ms) = 1),
  constraint schedule_values_are_in_range check (
    every_ms between 1000 and 3153600000000 and jitter_ms between 0 and 86400000 and length(cron) <= 256 and length(zone) <= 64
    and start_at between '1970-01-01 00:00:00+00' and '9999-12-31 23:59:59+00'
    and end_at between '1970-01-01 00:00:00+00' and '9999-12-31 23:59:59+00'),
  constraint schedule_policies_are_known check (catch_up in ('none', 'last', 'all') and overlap in ('skip', 'queue', 'allow')),
  constraint schedule_paused_has_no_slot check (paused_at is null or (next_slot is null and due_at is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

create index schedule_due on stint.schedule (due_at) where due_at is not null;
create index schedule_owner on stint.schedule (owner) where owner is not null;
create index schedule_queued on stint.schedule (last_job_id) where overlap = 'queue';

-- The slots that have fired, and those that did not with the reason. A slot is in it once, written in the transaction that enqueues its job.
-- It outlives the job and the schedule, so that a schedule that is removed and made again does not fire a slot twice.
create table stint.schedule_slot (
  schedule  text collate "C" not null,
  slot      timestamptz not null,
  outcome   text not null check (outcome in ('fired', 'missed', 'skipped', 'failed', 'run-now')),
  slots     integer not null default 1,            -- a row of missed or skipped slots is for so many of them
  last_slot timestamptz,                           -- and until this one
  job_id    uuid,
  at        timestamptz not null default clock_timestamp(),
  primary key (schedule, slot)
);
create index schedule_slot_at on stint.schedule_slot (at);

-- ---- Firing ----------------------------------------------------------------------------------------

-- The job of a slot: the schedule's job with an id, a key that names the slot, and the slot in its meta.
create function stint.job_of_slot(p_schedule stint.schedule, p_id uuid, p_slot timestamptz, p_run_at timestamptz) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select (p_schedule).job
    || jsonb_build_object(
      'id', p_id,
      'exempt', true,                              -- from admission: a full queue must not stop the schedule
      'key', coalesce((p_schedule).job ->> 'key', (p_schedule).name) || '@' || iso.slot,
      'meta', coalesce((p_schedule).job -> 'meta', '{}')
        || jsonb_build_object('schedule', jsonb_build_object('name', (p_schedule).name, 'slot', iso.slot))
        || case when (p_schedule).quiet_hours is null then '{}' else jsonb_build_object('quietHours', (p_schedule).quiet_hours) end)
    || case when p_run_at is null then '{}' else jsonb_build_object('run_at', p_run_at) end
  from (select to_char(p_slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as slot) iso
$$;

-- Whether the job of a slot has not ended. A job that was continued has ended when its chain has.
create function stint.run_is_live(p_job uuid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from stint.job j where j.id = p_job)
    or exists (select from stint.flow_job m join stint.job j on j.id = m.last_id where m.job_id = p_job);
end
$$;

-- Fires due slots. Each of `p_fires` is what a worker computed for one schedule: {"name", "revision", "from": the slot it computed from,
-- "slots": [{"slot", "run_at"}] to fire, "missed": {"slot", "last_slot", "slots"}, "next_slot", "due_at"}. What has changed meanwhile is left
-- out: another worker has fired it, or it was changed, paused or removed. Slots, jobs and the next slot commit together.
create function stint.fire_schedules(p_fires jsonb, p_until timestamptz)
returns table (moved integer, fired integer, missed integer, skipped integer, queues text[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := clock_timestamp();
  v_fire     jsonb;
  v_slot     jsonb;
  v_next     timestamptz;
  v_due      timestamptz;
  v_schedule stint.schedule;
  v_live     boolean;
  v_id       uuid;
  v_last     timestamptz;
  v_fired    integer;
  v_missed   integer;
  v_skipped  integer;
  v_rows     jsonb[] := '{}';
  v_awaited  uuid[] := '{}';
begin
  moved := 0; fired := 0; missed := 0; skipped := 0;
  -- One order for all workers prevents deadlocks; rows that another worker is firing are left to it.
  for v_fire in
    select f.value from jsonb_array_elements(p_fires) f order by (f.value ->> 'name') collate "C"
  loop
    select * into v_schedule
    from stint.schedule s
    where s.name = v_fire ->> 'name'
      and s.revision = (v_fire ->> 'revision')::integer
      and s.next_slot is not distinct from (v_fire ->> 'from')::timestamptz
      and s.due_at <= v_now
    for update skip locked;
    continue when not found;

    v_live := v_schedule.overlap <> 'allow' and stint.run_is_live(v_schedule.last_job_id);
    v_next := (v_fire ->> 'next_slot')::timestamptz;
    v_due := (v_fire ->> 'due_at')::timestamptz;
    v_id := v_schedule.last_job_id;
    v_last := v_schedule.last_slot;
    v_fired := 0; v_missed := 0; v_skipped := 0;

    -- The slots wait for the job before. Its end makes the schedule due again (follow_up_runs); this time is the safety net.
    if v_live and v_schedule.overlap = 'queue' and v_fire -> 'slots' <> '[]' then
      update stint.schedule s set due_at = v_now + interval '30 seconds' where s.name = v_schedule.name;
      continue;
    end if;

    if v_fire -> 'missed' <> 'null' then
      insert into stint.schedule_slot (schedule, slot, outcome, slots, last_slot)
      values (v_schedule.name, (v_fire #>> '{missed,slot}')::timestamptz, 'missed', (v_fire #>> '{missed,slots}')::integer,
        (v_fire #>> '{missed,last_slot}')::timestamptz)
      on conflict do nothing;
      v_missed := (v_fire #>> '{missed,slots}')::integer;
    end if;

    for v_slot in select e.value from jsonb_array_elements(v_fire -> 'slots') e loop
      -- A clock that was set back: no slot fires before its time.
      exit when (v_slot ->> 'slot')::timestamptz > v_now;
      if v_live and v_schedule.overlap = 'queue' then
        v_next := (v_slot ->> 'slot')::timestamptz;
        v_due := v_now + interval '30 seconds';
        exit;
      end if;
      if v_live then
        insert into stint.schedule_slot (schedule, slot, outcome, job_id)
        values (v_schedule.name, (v_slot ->> 'slot')::timestamptz, 'skipped', v_id)
        on conflict do nothing;
        v_skipped := v_skipped + 1;
        continue;
      end if;
      insert into stint.schedule_slot (schedule, slot, outcome, job_id)
      values (v_schedule.name, (v_slot ->> 'slot')::timestamptz, 'fired', stint.new_id())
      on conflict do nothing
      returning job_id into v_id;
      continue when not found;
      v_rows := array_append(v_rows,
        stint.job_of_slot(v_schedule, v_id, (v_slot ->> 'slot')::timestamptz, (v_slot ->> 'run_at')::timestamptz));
      v_last := (v_slot ->> 'slot')::timestamptz;
      v_fired := v_fired + 1;
      if v_schedule.overlap = 'queue' then
        v_awaited := v_awaited || v_id;
      end if;
      v_live := v_schedule.overlap <> 'allow';
    end loop;

    update stint.schedule s
    set next_slot = v_next, due_at = v_due, last_slot = v_last, last_job_id = v_id, error = null,
        fired = s.fired + v_fired, missed = s.missed + v_missed, skipped = s.skipped + v_skipped
    where s.name = v_schedule.name;
    moved := moved + 1; fired := fired + v_fired; missed := missed + v_missed; skipped := skipped + v_skipped;
  end loop;

  if v_rows <> '{}' then
    perform from stint.enqueue_rows(to_jsonb(v_rows), false);
    update stint.job j set has_follow_ups = true where j.id = any (v_awaited);
  end if;
  queues := array(select distinct r ->> 'queue' from unnest(v_rows) r);
  if clock_timestamp() > p_until then
    perform stint.too_late();
  end if;
  return next;
end
$$;

-- A worker cannot compute the slots of a schedule, or the table refuses its job. The error stays with the schedule until a slot fires. With a
-- next slot the series continues; without one it waits for a change.
create function stint.fail_schedule(
  p_name text, p_revision integer, p_from timestamptz, p_next timestamptz, p_due timestamptz, p_error text
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update stint.schedule s
  set next_slot = p_next, due_at = p_due, error = left(p_error, 1000)
  where s.name = p_name and s.revision = p_revision and s.next_slot is not distinct from p_from and s.due_at <= clock_timestamp();
  if found and p_from is not null then
    insert into stint.schedule_slot (schedule, slot, outcome) values (p_name, p_from, 'failed') on conflict do nothing;
  end if;
  return found;
end
$$;

select stint.revoke_new_functions();
