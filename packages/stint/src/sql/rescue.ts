import type { Row, Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { number, readMany, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { JobState } from "../model/state.ts";
import { logWith } from "./attempt-log.ts";
import type { IdleCheckPart } from "./idle-check.ts";
import { jobState, toTags } from "./rows.ts";
import { afterFollowUps, followed, tallied, toHistory, unleased } from "./transitions.ts";

export type Rescued = {
  job: string;
  kind: string;
  queue: string;
  /** The worker whose lease ran out. */
  worker: string;
  key: string | null;
  tenant: string | null;
  tags: readonly string[];
  /** The number of the attempt. A crash does not spend it. */
  attempt: number;
  crashes: number;
  /** The new state: ready, parked (to be run alone next), dead or cancelled. */
  state: JobState;
};

/** The lease that was judged still stands as it was: a job settled or renewed since it was picked stays as it is. */
const unrenewed = `j.id = judged.id and j.epoch = judged.epoch and j.lease_id = judged.lease_id
      and j.lease_until < transaction_timestamp()`;

const crashed = logWith("j", `'{"outcome": "crashed"}'::jsonb`);

const condemned = {
  state: `case when judged.cancel_requested then 'cancelled' else 'dead' end::stint.job_state`,
  attempts: "j.attempts - 1",
  crashes: "judged.crashes",
  reason: `case
        when judged.cancel_requested then coalesce(stint.cancel_reason(j.id), 'cancelled while it ran; its worker died')
        else 'worker died while running it'
      end`,
  log: crashed,
};

const returned = `id, kind, queue, priority, key, tenant, tags, attempts + 1 as attempt, crashes, state, worker`;

/**
 * A job whose lease ran out goes straight back to ready: a dead worker says nothing about its job. A job whose workers die repeatedly
 * is suspected of killing them and parked in quarantine, to be run alone. Only a crash while it ran alone ends it, because no other job
 * can have caused that crash; unless the job allows a single crash only.
 *
 * Leases are judged as of when the rescue was sent. A rescue that waited behind a lock on the table, as the renewals did, must not
 * find all of them expired. A rescue that arrives after its deadline fails: the same delay may have held up the renewals.
 */
const rescueJobs = statement(
  "rescue",
  `
  with lost as materialized (
    select
      j.id, j.epoch, j.lease_id, j.crashes + 1 as crashes, j.park_reason is not distinct from 'quarantine' as alone, j.cancel_requested,
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
        park_reason = case when judged.suspected then 'quarantine' end,
        reason = null,
        run_at = case when judged.suspected then clock_timestamp() else j.run_at end,
        attempts = j.attempts - 1,
        crashes = judged.crashes,
        ${unleased},
        log = ${crashed}
    from judged
    where ${unrenewed} and not judged.ends
    returning
      j.id, j.kind, j.queue, j.priority, j.key, j.tenant, j.tags, j.attempts + 1 as attempt, j.crashes, j.state,
      j.log -> -1 ->> 'worker' as worker, j.has_follow_ups
  ), ${toHistory({ using: "judged", where: `${unrenewed} and judged.ends` }, condemned, returned)}, tallied as (
    ${tallied(
      `(select queue, kind, priority, state from back union all select queue, kind, priority, state from ended) went`,
      {
        was: ["running"],
        becomes: ["ready", "parked", "dead", "cancelled"],
      },
    )}
  ), ${followed(
    `(select id, state, has_follow_ups, null as reason from back union all select id, state, has_follow_ups, reason from gone) went`,
    ["reason"],
  )}
  select id, kind, queue, key, tenant, tags, attempt, crashes, state, worker from back where ${afterFollowUps}
  union all
  select id, kind, queue, key, tenant, tags, attempt, crashes, state, worker from ended`,
);

/** When the next lease runs out. */
export const nextExpiry: IdleCheckPart = {
  sql: `
      select extract(epoch from l.lease_until - clock_timestamp()) * 1000
      from stint.job l
      where l.state = 'running'
        and l.lease_until > $3::timestamptz - interval '5 seconds'
      order by l.lease_until
      limit 1
    `,
  endsSleep: true,
};

/**
 * Take back jobs whose lease ran out, of every kind and every worker. `since` leaves out leases that ran out some seconds before it:
 * index entries of rows long gone pile up there while another session's transaction stays open.
 */
export async function rescue(
  db: Run,
  input: { limit: number; maxCrashes: number; since?: string | undefined; until?: number },
): Promise<Rescued[]> {
  const until = input.until === undefined ? "infinity" : toTimestamp(input.until);
  const values = [input.limit, input.maxCrashes, input.since ?? "-infinity", until];
  return await readMany(db, rescueJobs, values, toRescued);
}

function toRescued(row: Row): Rescued {
  return {
    job: text(row, "id"),
    kind: text(row, "kind"),
    queue: text(row, "queue"),
    // Null only in a row written by hand. The job is rescued already, so this must not fail.
    worker: textOrNull(row, "worker") ?? "unknown",
    key: textOrNull(row, "key"),
    tenant: textOrNull(row, "tenant"),
    tags: toTags(row["tags"]),
    attempt: number(row, "attempt"),
    crashes: number(row, "crashes"),
    state: jobState(row, "state"),
  };
}
