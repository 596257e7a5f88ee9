import type { Row, Run } from "../db/db.ts";
import { json, number, numberOrNull, orNull, readMaybe, readOne, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Job } from "../model/job.ts";
import type { PauseScope } from "../model/pause.ts";
import type { JobState } from "../model/state.ts";
import { pauseInForce } from "./pauses.ts";
import { jobColumns, toJob } from "./rows.ts";
import { quietMs } from "./slow.ts";

/** A job with the details that only `jobs show` and `jobs why` need. */
export type CloseJob = {
  readonly job: Job;
  readonly leaseId: string | null;
  /** The lease of each ended attempt in the attempt log, by epoch. */
  readonly leases: ReadonlyMap<number, string>;
  readonly timeoutMs: number | null;
  /** How many crashes the job may have, by its own or its kind's registered setting. */
  readonly maxCrashes: number | null;
  /** Since the handler of a running job last reported anything; 0 where its kind declares no `stallAfter`. */
  readonly quietMs: number;
  readonly stallAfterMs: number | null;
  /** The database's clock, from which all ages are computed. */
  readonly at: Date;
};

const lookClosely = statement(
  "look-closely",
  `
  select
    ${jobColumns},
    coalesce(max_crashes, (select k.max_crashes from stint.kind k where k.name = jobs.kind)) as all_crashes,
    k.stall_after_ms::float8 as stall_after_ms,
    case when jobs.state = 'running' and k.stall_after_ms is not null then ${quietMs("jobs")} else 0 end as quiet_ms,
    clock_timestamp() as at
  from stint.jobs
  left join (select name, stall_after_ms from stint.kind) k on k.name = jobs.kind
  where id = $1`,
);

export async function closeJob(db: Run, id: string): Promise<CloseJob | undefined> {
  return await readMaybe(db, lookClosely, [id], (row) => ({
    job: toJob(row),
    leaseId: textOrNull(row, "lease_id"),
    leases: leasesOf(row),
    timeoutMs: numberOrNull(row, "timeout_ms"),
    maxCrashes: numberOrNull(row, "all_crashes"),
    quietMs: numberOrNull(row, "quiet_ms") ?? 0,
    stallAfterMs: numberOrNull(row, "stall_after_ms"),
    at: time(row, "at"),
  }));
}

const logOrNull = orNull(json<{ epoch: number; lease?: string | null }[]>);

function leasesOf(row: Row): ReadonlyMap<number, string> {
  const entries = logOrNull(row, "log") ?? [];
  const leases = new Map<number, string>();
  for (const { epoch, lease } of entries) if (typeof lease === "string") leases.set(epoch, lease);
  return leases;
}

/** The fields of a worker that matter to one job. */
export type NearWorker = {
  readonly id: string;
  /** Slots for the job's queue; null when it does not serve that queue. */
  readonly slots: number | null;
  /** Jobs of the queue, and of others that its pattern matches, that it holds, whether they run or wait for a slot. */
  readonly held: number;
  readonly servesKind: boolean;
  readonly draining: boolean;
  readonly asleep: boolean;
  readonly heartbeatAgeMs: number;
};

export type Surroundings = {
  readonly workers: readonly NearWorker[];
  /** Ready jobs of its queue that are claimed before it, counted up to 1,001. */
  readonly ahead: number;
  /** Jobs that run or wait in quarantine before it, counted up to 101. */
  readonly suspects: number;
  /** Pauses of its queue, its kind, its tenant and its key. */
  readonly pauses: readonly NearPause[];
  /** The limits that it is under and holds or waits for a place of. */
  readonly places: readonly NearPlace[];
  /** The name or pattern whose admission settings defer new jobs of its queue; null: none. */
  readonly defers: string | null;
};

export type NearPause = {
  readonly scope: PauseScope;
  readonly name: string;
  readonly reason: string;
  readonly pausedBy: string;
  /** How long it is paused, and how long until it ends by itself; null: when it is resumed. */
  readonly pausedMs: number;
  readonly leftMs: number | null;
};

export type NearPlace = {
  readonly key: string;
  readonly max: number | null;
  /** Whether the job holds a place; otherwise it waits for one. */
  readonly holds: boolean;
  /** Places in use, and jobs that wait before it, counted up to 1,001. */
  readonly held: number;
  readonly ahead: number;
  /** The first jobs that hold a place, at most three. */
  readonly holders: readonly { readonly id: string; readonly state: JobState | null }[];
};

const lookAround = statement(
  "surroundings",
  `
  with running as materialized (
    select worker, queue from stint.job
    where state = 'running' and lease_until >= stint.by_index((select '-infinity'::timestamptz))
    order by lease_until
    limit 10000
  )
  select
    (
      select coalesce(jsonb_agg(near), '[]')
      from (
        select
          w.id,
          (w.pools ->> served."as")::integer as slots,
          -- Queues of the same pattern share slots.
          (
            select count(*) from running r
            where r.worker = w.id
              and (r.queue = $2::text or served."as" <> $2::text and stint.served_as(w.pools, r.queue) = served."as")
          ) as held,
          $3::text = any (w.kinds) as "servesKind",
          w.draining, w.asleep,
          extract(epoch from clock_timestamp() - w.seen_at) * 1000 as "heartbeatAgeMs"
        from stint.worker w
        cross join lateral stint.served_as(w.pools, $2::text) as served ("as")
        where served."as" is not null or $3::text = any (w.kinds) or w.id = $4::text
        order by w.seen_at desc
        limit 500
      ) near
    ) as workers,
    (
      select count(*)
      from (
        select from stint.job r
        where r.state = 'ready' and r.queue = stint.by_index((select $2::text))
          and (r.priority, r.run_at, r.id) < (
            select j.priority, j.run_at, j.id from stint.job j where j.id = $1::uuid and j.state = 'ready')
        order by r.priority, r.run_at, r.id
        limit 1001
      ) before
    )::integer as ahead,
    (
      select count(*)
      from (
        select from stint.job p
        where p.state = 'parked' and p.park_reason = stint.by_index((select 'quarantine'))
          and p.queue = $2::text
          and p.run_at < (select j.run_at from stint.job j where j.id = $1::uuid and j.state = 'parked')
        order by p.park_reason, p.run_at
        limit 101
      ) before
    )::integer as suspects,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'scope', p.scope, 'name', p.name, 'reason', p.reason, 'pausedBy', p.paused_by,
        'pausedMs', extract(epoch from clock_timestamp() - p.paused_at) * 1000,
        'leftMs', extract(epoch from p.until - clock_timestamp()) * 1000)), '[]')
      from stint.pause p
      where ${pauseInForce}
        and case
          when p.scope in ('queue', 'kind') then case p.scope when 'queue' then $2::text else $3::text end
            like replace(replace(p.name, '_', '!_'), '*', '%') escape '!'
          when p.scope = 'tenant' then p.name = $5::text
          when p.scope = 'key' then p.name = $6::text
        end
    ) as pauses,
    (
      select coalesce(jsonb_agg(place), '[]')
      from (
        select
          m.key, stint.max_of(m.key) as max, m.holds,
          (select count(*) from (select from stint.limit_place p where p.key = m.key and p.holds limit 1001) held)::integer as held,
          (
            select count(*)
            from (
              select from stint.limit_place p
              where not m.holds and p.key = m.key and not p.holds and (p.priority, p.run_at, p.seq) < (m.priority, m.run_at, m.seq)
              order by p.priority, p.run_at, p.seq
              limit 1001
            ) before
          )::integer as ahead,
          (
            select coalesce(jsonb_agg(holder), '[]')
            from (
              select p.job_id as id, (select j.state from stint.jobs j where j.id = p.job_id) as state
              from stint.limit_place p
              where p.key = m.key and p.holds and p.job_id <> m.job_id
              limit 3
            ) holder
          ) as holders
        from stint.limit_place m
        where m.job_id = $1::uuid
        order by m.holds, m.key
        limit 16
      ) place
    ) as places,
    (
      select case when q.admission ->> 'policy' = 'defer' then q.name end
      from stint.queue q
      where q.admission is not null and $2::text like replace(replace(q.name, '_', '!_'), '*', '%') escape '!'
      order by strpos(q.name, '*') > 0, length(q.name) desc
      limit 1
    ) as defers`,
);

/** The surroundings of a live job: workers that could run it, and jobs before it. */
export async function surroundings(
  db: Run,
  job: Pick<Job, "id" | "queue" | "kind" | "worker" | "tenant" | "key">,
): Promise<Surroundings> {
  const { id, queue, kind, worker, tenant, key } = job;
  return await readOne(db, lookAround, [id, queue, kind, worker, tenant, key], (row) => ({
    workers: json<NearWorker[]>(row, "workers"),
    ahead: number(row, "ahead"),
    suspects: number(row, "suspects"),
    pauses: json<Surroundings["pauses"]>(row, "pauses"),
    places: json<Surroundings["places"]>(row, "places"),
    defers: textOrNull(row, "defers"),
  }));
}
