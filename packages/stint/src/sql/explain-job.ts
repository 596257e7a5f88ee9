import type { Row, Run } from "../db/db.ts";
import { json, number, numberOrNull, orNull, readMaybe, readOne, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Job } from "../model/job.ts";
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
  /** Pauses of its queue and its kind. */
  readonly pauses: readonly {
    readonly scope: "queue" | "kind";
    readonly name: string;
    readonly reason: string;
  }[];
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
      select coalesce(jsonb_agg(jsonb_build_object('scope', p.scope, 'name', p.name, 'reason', p.reason)), '[]')
      from stint.pause p
      where (p.until is null or p.until > clock_timestamp())
        and case p.scope when 'queue' then $2::text when 'kind' then $3::text end
          like replace(replace(p.name, '_', '!_'), '*', '%') escape '!'
    ) as pauses`,
);

/** The surroundings of a live job: workers that could run it, and jobs before it. */
export async function surroundings(
  db: Run,
  job: Pick<Job, "id" | "queue" | "kind" | "worker">,
): Promise<Surroundings> {
  return await readOne(db, lookAround, [job.id, job.queue, job.kind, job.worker], (row) => ({
    workers: json<NearWorker[]>(row, "workers"),
    ahead: number(row, "ahead"),
    suspects: number(row, "suspects"),
    pauses: json<Surroundings["pauses"]>(row, "pauses"),
  }));
}
