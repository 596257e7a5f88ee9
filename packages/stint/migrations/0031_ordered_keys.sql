-- Ordered keys: the first job of a key gets its turn, and a turn can be passed on.
-- oldest code: 1

-- At the commit of a transaction that enqueued jobs with an ordered key: the first of each key gets its turn, if no other job has it. Not earlier: a
-- transaction that is left open must not hold up the settling of jobs. Where transactions may be prepared, upkeep does it, because a prepared transaction
-- keeps its locks and cannot send a NOTIFY.
create function stint.admit_ordered() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys text[];
begin
  with mine as (
    update stint.limit_place p set xid = null where p.xid = pg_current_xact_id() returning p.key
  )
  select array_agg(distinct key) into v_keys from mine;
  if v_keys is null then
    return null;
  elsif current_setting('max_prepared_transactions') <> '0' then
    insert into stint.limit_missed (key) select unnest(v_keys);
  else
    perform stint.wake(stint.let_in(v_keys));
  end if;
  return null;
end
$$;

create constraint trigger admit_ordered after insert on stint.limit_place
deferrable initially deferred
for each row when (new.xid is not null) execute function stint.admit_ordered();

-- The dead job at the head of an ordered key gives up its turn, and the next one runs. Returns its id; null: no dead job blocks the key.
create function stint.pass_order(p_key text, p_reason text, p_actor text default null, p_id uuid default null) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job uuid;
begin
  perform stint.lock_keys(array[p_key]);
  delete from stint.limit_place p
  where p.key = p_key and p.holds and p.ordered = 'block' and not exists (select from stint.job j where j.id = p.job_id)
  returning p.job_id into v_job;
  if v_job is not null then
    insert into stint.audit (id, actor, action, reason, job_id)
    values (coalesce(p_id, stint.new_id()), coalesce(p_actor, 'sql:' || session_user), 'pass-order', p_reason, v_job)
    on conflict (id) do nothing;
    perform stint.wake(stint.let_in(array[p_key]));
  end if;
  return v_job;
end
$$;

select stint.revoke_new_functions();
