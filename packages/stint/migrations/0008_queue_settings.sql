-- Queue settings, and their changes from SQL.
-- oldest code: 1

create function stint.refuse_setting(p_queue text, p_rule text, p_value text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'stint: queue %: % (got %)', coalesce(quote_literal(left(p_queue, 200)), 'null'), p_rule, coalesce(left(p_value, 200), 'null')
    using errcode = '22023', hint = 'Nothing was changed.';
end
$$;

-- The name or pattern, the reason and the actor of a change.
create function stint.check_queue_change(p_queue text, p_reason text, p_actor text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_queue is null or p_queue !~ '^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$' or strpos(p_queue, '**') > 0 then
    perform stint.refuse_setting(p_queue,
      'must be a name or a pattern of 1 to 128 characters from A-Z, a-z, 0-9, . _ : / - and single *, beginning with a letter, a digit or *',
      quote_literal(p_queue));
  end if;
  if p_reason is null or length(p_reason) not between 1 and 512 or p_reason ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_setting(p_queue, 'reason must be a text of 1 to 512 characters without control characters', quote_literal(p_reason));
  end if;
  if length(p_actor) not between 1 and 512 or p_actor ~ E'[\\x01-\\x1f]' then
    perform stint.refuse_setting(p_queue, 'actor must be a text of 1 to 512 characters without control characters', quote_literal(p_actor));
  end if;
end
$$;

-- Change settings of a queue, or of all queues that a pattern matches: {"targetAge": "30s", "admission": {"maxDepth": 10000},
-- "fair": "tenant", "aging": "10m"}. A setting that is left out stays as it is; null
-- returns it to the value that code declared. The change is audited. With an `id`, a repeat of the same call changes nothing, so a
-- caller that lost the result may send it again.
create function stint.set_queue(queue text, settings jsonb, reason text, actor text default null, id uuid default null)
returns stint.queue
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_allowed constant text[] := array['targetAge', 'admission', 'fair', 'aging'];
  v_actor   constant text := coalesce(set_queue.actor, 'sql:' || session_user);
  v_unknown text;
  v_ms      numeric;
  v_admission jsonb;
  v_fair    jsonb;
  v_aging   numeric;
  v_before  stint.queue;
  v_after   stint.queue;
begin
  perform stint.check_queue_change(set_queue.queue, set_queue.reason, v_actor);
  if settings is null or jsonb_typeof(settings) <> 'object' or settings = '{}' then
    perform stint.refuse_setting(set_queue.queue, 'settings must be a JSON object such as {"targetAge": "30s"}', settings::text);
  end if;
  select s into v_unknown from jsonb_object_keys(settings) s where s <> all (v_allowed) limit 1;
  if v_unknown is not null then
    raise exception 'stint: queue "%": unknown setting "%"', set_queue.queue, left(v_unknown, 200)
      using errcode = '22023', hint = 'Settings are: ' || array_to_string(v_allowed, ', ') || '. Nothing was changed.';
  end if;
  if settings -> 'targetAge' <> 'null' then
    v_ms := stint.to_ms(settings -> 'targetAge');
    if v_ms is null or round(v_ms) not between 1 and 3153600000000 then
      perform stint.refuse_setting(set_queue.queue,
        'targetAge must be a length of time such as "30s", "1h30m" or milliseconds, from 1 ms to 36500 days, or null', (settings -> 'targetAge')::text);
    end if;
  end if;

  v_admission := stint.checked_admission(set_queue.queue, settings -> 'admission');
  perform stint.check_delays(set_queue.queue, v_admission);
  v_fair := stint.checked_fair(set_queue.queue, settings -> 'fair');
  v_aging := stint.checked_aging(set_queue.queue, settings -> 'aging');

  -- The lock makes concurrent changes wait for each other, so that each is audited with the value it replaced.
  insert into stint.queue (name, updated_by) values (set_queue.queue, v_actor) on conflict (name) do nothing;
  select * into v_before from stint.queue q where q.name = set_queue.queue for update;
  if exists (select from stint.audit a where a.id = set_queue.id) then
    return v_before;
  end if;
  update stint.queue q
  set
    target_age_ms = case when settings ? 'targetAge' then coalesce(round(v_ms), q.declared_target_age_ms) else q.target_age_ms end,
    admission = case when settings ? 'admission' then coalesce(v_admission, q.declared_admission) else q.admission end,
    fair = case when settings ? 'fair' then coalesce(v_fair, q.declared_fair) else q.fair end,
    aging_ms = case when settings ? 'aging' then coalesce(v_aging, q.declared_aging_ms) else q.aging_ms end,
    updated_at = clock_timestamp(), updated_by = v_actor
  where q.name = set_queue.queue
  returning * into v_after;
  perform stint.check_order(v_after);
  insert into stint.audit (id, actor, action, reason, queue, change)
  values (
    coalesce(set_queue.id, stint.new_id()), v_actor, 'set-queue', set_queue.reason, set_queue.queue,
    case when settings ? 'targetAge'
      then jsonb_build_object('targetAgeMs', jsonb_build_object('from', v_before.target_age_ms, 'to', v_after.target_age_ms)) else '{}' end
    || case when settings ? 'admission'
      then jsonb_build_object('admission', jsonb_build_object('from', v_before.admission, 'to', v_after.admission)) else '{}' end
    || case when settings ? 'fair'
      then jsonb_build_object('fair', jsonb_build_object('from', v_before.fair, 'to', v_after.fair)) else '{}' end
    || case when settings ? 'aging'
      then jsonb_build_object('agingMs', jsonb_build_object('from', v_before.aging_ms, 'to', v_after.aging_ms)) else '{}' end
  );
  if v_before.fair is distinct from v_after.fair or v_before.aging_ms is distinct from v_after.aging_ms then
    perform stint.order_changed(case when v_after.fair <> 'false' then array[set_queue.queue] end);
  end if;
  return v_after;
end
$$;

-- Delete the settings of a queue or pattern, also the declared ones: for names that code no longer declares. A worker whose code still
-- declares them writes them again when it starts. False: there were none.
create function stint.forget_queue(queue text, reason text, actor text default null, id uuid default null)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_actor  constant text := coalesce(forget_queue.actor, 'sql:' || session_user);
  v_before stint.queue;
begin
  perform stint.check_queue_change(forget_queue.queue, forget_queue.reason, v_actor);
  if exists (select from stint.audit a where a.id = forget_queue.id) then
    return true;
  end if;
  delete from stint.queue q where q.name = forget_queue.queue returning * into v_before;
  if not found then
    return false;
  end if;
  insert into stint.audit (id, actor, action, reason, queue, change)
  values (
    coalesce(forget_queue.id, stint.new_id()), v_actor, 'forget-queue', forget_queue.reason, forget_queue.queue,
    jsonb_build_object('targetAgeMs', jsonb_build_object('from', v_before.target_age_ms, 'to', null))
    || case when v_before.admission is null then '{}'
      else jsonb_build_object('admission', jsonb_build_object('from', v_before.admission, 'to', null)) end
    || case when v_before.fair is null then '{}'
      else jsonb_build_object('fair', jsonb_build_object('from', v_before.fair, 'to', null)) end
    || case when v_before.aging_ms is null then '{}'
      else jsonb_build_object('agingMs', jsonb_build_object('from', v_before.aging_ms, 'to', null)) end
  );
  if v_before.fair is not null or v_before.aging_ms is not null then
    perform stint.order_changed(null);
  end if;
  return true;
end
$$;

select stint.revoke_new_functions();
