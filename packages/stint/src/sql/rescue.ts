import type { Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { toTallies } from "./tallies.ts";

export type Rescued = {
  job: string;
  kind: string;
  queue: string;
  /** The worker whose lease ran out. */
  worker: string;
  key: string | null;
  tenant: string | null;
  tags: readonly string[];
  /** Which attempt it was. A crash does not spend it. */
  attempt: number;
  crashes: number;
  /** Where the job went: ready, parked (to be run alone next), dead or cancelled. */
  state: JobState;
};

/**
 * A job whose lease ran out goes straight back to ready: that its worker died says nothing about it. If it happens
 * again and again, the job is suspected, and parked in quarantine to be run alone. Only a crash while it ran alone
 * condemns it, so that crash can only have been its own; unless a single crash is all it was allowed.
 *
 * The update and the delete repeat the whole predicate. A job settled or renewed since it was picked stays as it is. Leases are
 * judged as of when the rescue was sent: one that waited behind a lock on the table, as the renewals did, must not
 * find them all run out. One that arrives after its deadline fails: what kept it may have kept the renewals, too.
 */
const rescueJobs = statement(
  "rescue",
  `
  with lost as materialized (
    select
      j.id, j.epoch, j.lease_id, j.crashes + 1 as crashes, j.reason is not distinct from 'quarantine' as alone, j.cancel_requested,
      coalesce(j.max_crashes, (select k.max_crashes from stint.kind k where k.name = j.kind), $2::integer) as max_crashes
    from stint.job j
    where j.state = 'running'
      and j.lease_until > $3::timestamptz - interval '5 seconds'
      and j.lease_until < stint.by_index(transaction_timestamp())
      and (clock_timestamp() < $4::timestamptz or stint.too_late())
    order by j.lease_until
    limit $1
    for update skip locked
  ), judged as materialized (
    select
      id, epoch, lease_id, crashes, cancel_requested,
      crashes >= max_crashes - 1 as suspected,
      cancel_requested or (crashes >= max_crashes and (alone or max_crashes = 1)) as ends
    from lost
  ), back as (
    update stint.job j
    set state = case when judged.suspected then 'parked' else 'ready' end::stint.job_state,
        reason = case when judged.suspected then 'quarantine' end,
        run_at = case when judged.suspected then clock_timestamp() else j.run_at end,
        attempts = j.attempts - 1,
        crashes = judged.crashes,
        lease_id = null,
        lease_until = null,
        worker = null,
        claimed_at = null,
        log = stint.append_attempt(j.log, jsonb_build_object(
          'epoch', j.epoch, 'worker', j.worker, 'startedAt', j.claimed_at, 'endedAt', clock_timestamp(),
          'lease', j.lease_id, 'outcome', 'crashed'))
    from judged
    where j.id = judged.id and j.epoch = judged.epoch and j.lease_id = judged.lease_id
      and j.lease_until < transaction_timestamp()
      and not judged.ends
    returning
      j.id, j.kind, j.queue, j.priority, j.key, j.tenant, j.tags, j.attempts + 1 as attempt, j.crashes, j.state,
      j.log -> -1 ->> 'worker' as worker
  ), gone as (
    delete from stint.job j
    using judged
    where j.id = judged.id and j.epoch = judged.epoch and j.lease_id = judged.lease_id
      and j.lease_until < transaction_timestamp()
      and judged.ends
    returning
      j.id, j.kind, j.queue, j.priority, j.run_at, j.created_at, j.attempts - 1 as attempts, judged.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, j.meta, j.payload, j.log, judged.cancel_requested
  ), ended as (
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags, reason, meta, payload, log
    )
    select
      id, kind, queue, case when cancel_requested then 'cancelled' else 'dead' end::stint.job_state,
      priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags,
      case
        when cancel_requested then coalesce(stint.cancel_reason(id), 'cancelled while it ran; its worker died')
        else 'worker died while running it'
      end,
      meta, payload,
      stint.append_attempt(log, jsonb_build_object(
        'epoch', epoch, 'worker', worker, 'startedAt', claimed_at, 'endedAt', clock_timestamp(),
        'lease', lease_id, 'outcome', 'crashed'))
    from gone
    returning id, kind, queue, priority, key, tenant, tags, attempts + 1 as attempt, crashes, state, worker
  ), tallied as (
    ${toTallies("live, parked, dead")}
    select
      queue, kind, priority, -count(*) filter (where state in ('dead', 'cancelled')), count(*) filter (where state = 'parked'),
      count(*) filter (where state = 'dead')
    from (
      select queue, kind, priority, state from back
      union all
      select queue, kind, priority, state from ended
    ) went
    where state <> 'ready'
    group by queue, kind, priority
  )
  select id, kind, queue, key, tenant, tags, attempt, crashes, state, worker from back
  union all
  select id, kind, queue, key, tenant, tags, attempt, crashes, state, worker from ended`,
);

/**
 * Take back jobs whose lease ran out, whatever their kind and whoever held them. `since` leaves out what ran out some
 * seconds before that: behind it lie the entries of leases long gone, while some other session's transaction stays open.
 */
export async function rescue(
  db: Run,
  input: { limit: number; maxCrashes: number; since?: string | undefined; until?: number },
): Promise<Rescued[]> {
  const until = input.until === undefined ? "infinity" : toTimestamp(input.until);
  const rows = await db.run(rescueJobs, [input.limit, input.maxCrashes, input.since ?? "-infinity", until]);
  return rows.map((row) => ({
    job: row["id"] as string,
    kind: row["kind"] as string,
    queue: row["queue"] as string,
    worker: row["worker"] as string,
    key: row["key"] as string | null,
    tenant: row["tenant"] as string | null,
    tags: (row["tags"] as string[] | null) ?? [],
    attempt: row["attempt"] as number,
    crashes: row["crashes"] as number,
    state: row["state"] as JobState,
  }));
}
