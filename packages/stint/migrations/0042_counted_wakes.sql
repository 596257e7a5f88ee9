-- Wakes that name the workers to wake, so that one job does not wake every idle worker.
-- oldest code: 1

-- The wake for so many new jobs of a queue. `ready:<queue>` is for every worker. Where more listen than are needed, it is
-- `ready/<first>|<later>:<queue>`, with the last six characters of the ids of workers: the first, one more than there are jobs, claim at once. The later
-- ones look after a while whether the jobs were taken, because a worker that died or is paused still counts as listening for a minute.
--
-- The first are chosen at random, so that they share the work. The later ones are those with the latest heartbeats, mostly the same ones for many wakes,
-- so that one look is for all of them, and a worker in sleep mode: all others may have died at once, and it would sleep on for minutes. Workers of
-- different kinds may not be able to run the job: all of them are woken.
create function stint.ready_hint(p_queue text, p_jobs bigint) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hint text;
begin
  if p_jobs > 20 then
    return 'ready:' || p_queue;
  end if;
  with listening as materialized (
    select right(w.id, 6) as tag, w.kinds, w.seen_at, w.asleep, random() as place
    from stint.worker w
    where w.listening and (w.asleep or w.seen_at > clock_timestamp() - interval '1 minute')
      and (w.pools ? p_queue or stint.served_as(w.pools, p_queue) is not null)
  ), first as (
    select l.tag from listening l order by l.asleep, l.place limit p_jobs + 1
  ), later as (
    (select l.tag, l.asleep, l.seen_at from listening l where l.tag not in (select f.tag from first f) order by l.asleep, l.seen_at desc limit 2)
    union
    (select l.tag, l.asleep, l.seen_at from listening l where l.asleep and l.tag not in (select f.tag from first f) order by l.place limit 1)
  )
  select 'ready/' || (select string_agg(f.tag, ',') from first f) || '|' || (select string_agg(l.tag, ',' order by l.asleep, l.seen_at desc) from later l) || ':' || p_queue
  into v_hint
  from listening l
  having count(*) > p_jobs + 3 and count(distinct l.kinds) = 1;
  return coalesce(v_hint, 'ready:' || p_queue);
end
$$;

select stint.revoke_new_functions();
