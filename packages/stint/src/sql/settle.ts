import type { DbTx, Row, Run, RunOptions } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Failure } from "../model/failure.ts";
import { keyOfFence, type AttemptOutcome, type Fence } from "../model/job.ts";
import { toTallies } from "./tallies.ts";

/** How an attempt ended, as the log keeps it. Times, worker and epoch are added by the database. */
export type Ending = { outcome: AttemptOutcome; error?: Failure };

export type Finish = {
  fence: Fence;
  state: "succeeded" | "dead" | "cancelled";
  /** JSON text. */
  result: string | null;
  reason: string | null;
  /** Left out for a success: the finished row itself says all of it. */
  ending: Ending | null;
};

export type PutBack = {
  fence: Fence;
  state: "retrying" | "scheduled" | "ready";
  /** From now on; null keeps the job's place in its queue. */
  delayMs: number | null;
  /** Whether the attempt counts. What was not the job's fault gives it back. */
  spent: boolean;
  /** The database failed the transaction that the handler was given. Counted in place of an interruption. */
  fault?: true;
  ending: Ending;
  /** The `traceparent` of this attempt, for the job to carry as that of its first one. Only where it was traced. */
  first?: string;
};

/**
 * What this worker holds is read from arrays in subselects: the planner must not see how many there are. For hundreds it
 * would rather read the whole table once than look each of them up.
 */
const fenced = `j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id`;
const ended = `stint.append_attempt(j.log, jsonb_build_object(
      'epoch', j.epoch, 'worker', j.worker, 'startedAt', j.claimed_at, 'endedAt', clock_timestamp(), 'lease', j.lease_id
    ) || m.ending::jsonb)`;

/** `only`: a further condition. */
const finishing = (only: string): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[]),
        (select $6::text[]), (select $7::text[])
      ) as m (id, epoch, lease_id, state, result, reason, ending)
  ), gone as (
    delete from stint.job j
    using mine m
    where ${fenced}${only}
    returning
      j.id, j.kind, j.queue, m.state, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, m.reason, j.meta, j.payload, m.result, j.cancel_requested,
      case when m.ending is null then j.log else ${ended} end as log
  ), tallied as (
    ${toTallies("live, dead")}
    select queue, kind, priority, -count(*), count(*) filter (where state = 'dead')
    from gone
    group by queue, kind, priority
  )
  insert into stint.history (
    id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, reason, meta, payload, result, log
  )
  select
    id, kind, queue, state::stint.job_state, priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
    epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
    key, tenant, tags, case when state = 'cancelled' and cancel_requested then coalesce(stint.cancel_reason(id), reason) else reason end,
    meta, payload, result::jsonb, log
  from gone
  returning id, epoch, lease_id`;

const finishJobs = statement("finish", finishing(""));

/** Move ended jobs into history, each only if its fence still holds. Returns the fences that did. */
export async function finish(db: Run, jobs: readonly Finish[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(finishJobs, [
    ...toArrays(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => job.result),
    jobs.map((job) => job.reason),
    jobs.map((job) => (job.ending === null ? null : JSON.stringify(job.ending))),
  ]);
  return amongst(fences, rows);
}

const begunAt = `(extract(epoch from transaction_timestamp()) * 1000000)::bigint`;
const finishLent = statement("finish-lent", finishing(` and ${begunAt} = $8::bigint`));
const isBegunAt = statement("is-begun-at", `select ${begunAt} = $1::bigint as same`);

/**
 * Record a success in the transaction that its handler was given, if that is still the one that began at this time: after a raw
 * commit or rollback of the handler's this would be written without, or apart from, what belongs to it.
 */
export async function finishInLent(
  tx: DbTx,
  fence: Fence,
  result: string | null,
): Promise<"finished" | "lost" | "another transaction"> {
  const rows = await tx.run(finishLent, [
    ...toArrays([fence]),
    ["succeeded"],
    [result],
    [null],
    [null],
    tx.begunAt,
  ]);
  if (rows.length > 0) return "finished";
  const [row] = await tx.run(isBegunAt, [tx.begunAt]);
  return row?.["same"] === true ? "lost" : "another transaction";
}

const succeedJobs = statement(
  "succeed",
  `
  with mine as (
    select m.id, m.epoch, ($3::uuid[])[m.lease] as lease_id
    from unnest((select $1::uuid[]), (select $2::bigint[]), (select $4::integer[])) as m (id, epoch, lease)
  ), gone as (
    delete from stint.job j
    using mine m
    where ${fenced}
    returning
      j.id, j.kind, j.queue, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.lease_id, j.worker, j.claimed_at, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms,
      j.key, j.tenant, j.tags, j.meta, j.payload, j.log
  ), kept as (
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags, meta, payload, log
    )
    select
      id, kind, queue, 'succeeded', priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
      epoch, run, lease_id, worker, claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms,
      key, tenant, tags, meta, payload, log
    from gone
    returning id, epoch, lease_id
  ), tallied as (
    ${toTallies("live")}
    select queue, kind, priority, -count(*) from gone group by queue, kind, priority
  )
  select case when count(*) < $5::integer then coalesce(array_agg(id || ' ' || epoch || ' ' || lease_id), '{}') end as settled from kept`,
);

/**
 * Move jobs that succeeded without a result into history: most jobs, and the shortest way. Returns the fences that still
 * held. Usually all of them did, and the database then lists none.
 */
export async function succeed(db: Run, fences: readonly Fence[]): Promise<Set<Fence>> {
  // Those of one claim have their lease id in common; sent once, it is not half of what is sent.
  const leases = [...new Set(fences.map((fence) => fence.leaseId))];
  const [row] = await db.run(succeedJobs, [
    arrayOf(fences.map((fence) => fence.job)),
    arrayOf(fences.map((fence) => fence.epoch)),
    arrayOf(leases),
    arrayOf(fences.map((fence) => leases.indexOf(fence.leaseId) + 1)),
    fences.length,
  ]);
  const settled = row?.["settled"] as string[] | null | undefined;
  if (!Array.isArray(settled)) return new Set(fences);
  const keys = new Set(settled);
  return new Set(fences.filter((fence) => keys.has(keyOfFence(fence))));
}

function toFence(row: Row): Fence {
  return { job: row["id"] as string, epoch: Number(row["epoch"]), leaseId: row["lease_id"] as string };
}

/**
 * Those of the given fences that the rows name. Not matched by job: one worker may hold a stale and a current
 * attempt of the same job, and both may end in one statement.
 */
function amongst(fences: readonly Fence[], rows: readonly Row[]): Set<Fence> {
  const keys = new Set(rows.map((row) => keyOfFence(toFence(row))));
  return new Set(fences.filter((fence) => keys.has(keyOfFence(fence))));
}

/** The three arrays of `fenced`. */
function toArrays(fences: readonly Fence[]): string[] {
  return [
    arrayOf(fences.map((fence) => fence.job)),
    arrayOf(fences.map((fence) => fence.epoch)),
    arrayOf(fences.map((fence) => fence.leaseId)),
  ];
}

/** As Postgres writes an array of ids or numbers. They need no quoting, and the driver's way looks for it in every character. */
function arrayOf(values: readonly (string | number)[]): string {
  return `{${values.join()}}`;
}

/** Of the jobs in `back`, those that went where they wait for something. */
const waiting = `${toTallies("scheduled, retrying, parked")}
    select
      queue, kind, priority,
      count(*) filter (where state = 'scheduled'), count(*) filter (where state = 'retrying'), count(*) filter (where state = 'parked')
    from back
    where state <> 'ready'
    group by queue, kind, priority`;

/** With `first`, those that have one carry it from now on. */
const puttingBack = (first: "" | ", first"): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::bigint[]),
        (select $6::text[]), (select $7::text[])${first === "" ? "" : ", (select $8::text[])"}
      ) as m (id, epoch, lease_id, state, delay_ms, counts, ending${first})
  ), back as (
    update stint.job j
    set state = case
          -- Released before its turn alone was over, a suspect is still one.
          when m.delay_ms is null and j.reason = 'quarantine' then 'parked'
          when coalesce(m.delay_ms, 0) <= 0 then 'ready'
          else m.state
        end::stint.job_state,
        run_at = case when m.delay_ms is null then j.run_at else clock_timestamp() + m.delay_ms * interval '1 millisecond' end,
        attempts = j.attempts - case when m.counts = 'attempt' then 0 else 1 end,
        interruptions = j.interruptions + case when m.counts = 'interruption' then 1 else 0 end,
        faults = j.faults + case when m.counts = 'fault' then 1 else 0 end,
        lease_id = null,
        lease_until = null,
        worker = null,
        claimed_at = null,
        reason = case when m.delay_ms is null then j.reason end,${first === "" ? "" : carried}
        log = ${ended}
    from mine m
    where ${fenced}
      and not j.cancel_requested
    returning j.id, j.epoch, m.lease_id, j.queue, j.kind, j.priority, j.state
  ), tallied as (
    ${waiting}
  )
  select id, epoch, lease_id from back`;

/** Beside the trace the job was enqueued in, if there is one. */
const carried = `
        meta = case when m.first is null then j.meta else coalesce(j.meta, '{}') || jsonb_build_object('trace',
          coalesce(j.meta -> 'trace', '{}') || jsonb_build_object('first', m.first)) end,`;

const putBackJobs = statement("put-back", puttingBack(""));
const putBackTraced = statement("put-back-traced", puttingBack(", first"));

/**
 * Give jobs back to be run again, each only if its fence still holds and nobody asked for its end meanwhile.
 * Returns the fences of those that went back.
 */
export async function putBack(db: Run, jobs: readonly PutBack[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const values = [
    ...toArrays(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => (job.delayMs === null ? null : Math.ceil(job.delayMs))),
    jobs.map((job) => (job.fault ? "fault" : job.spent ? "attempt" : "interruption")),
    jobs.map((job) => JSON.stringify(job.ending)),
  ];
  const isTraced = jobs.some(({ first }) => first !== undefined);
  const rows = isTraced
    ? await db.run(putBackTraced, [...values, jobs.map(({ first }) => first ?? null)])
    : await db.run(putBackJobs, values);
  return amongst(fences, rows);
}

const findSettled = statement(
  "settled",
  `
  with mine as (
    select * from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[])) as m (id, epoch, lease_id)
  )
  select m.id, m.epoch, m.lease_id
  from mine m
  join stint.jobs j on j.id = m.id
  where (j.state = 'succeeded' and j.lease_id = m.lease_id)
    or exists (
      select from jsonb_array_elements(j.log) ended
      where ended ->> 'lease' = m.lease_id::text and ended ->> 'outcome' <> 'crashed'
    )`,
);

/**
 * Of these fences, the ones whose attempt was settled by its own worker. Asked after an answer was lost: without it
 * a worker would be told it lost jobs that it had in fact settled.
 */
export async function settledByOwner(db: Run, fences: readonly Fence[]): Promise<Set<Fence>> {
  return amongst(fences, await db.run(findSettled, toArrays(fences)));
}

const handBackJobs = statement(
  "hand-back",
  `
  with mine as (
    select * from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[])) as m (id, epoch, lease_id)
  ), free as materialized (
    select j.id, j.lease_id, j.cancel_requested
    from mine m
    join stint.job j on ${fenced}
    for update of j skip locked
  ), back as (
    update stint.job j
    set state = case when j.reason = 'quarantine' then 'parked' else 'ready' end::stint.job_state,
        attempts = j.attempts - 1,
        lease_id = null,
        lease_until = null,
        worker = null,
        claimed_at = null
    from free
    where j.id = free.id and j.lease_id = free.lease_id
      and not free.cancel_requested
    returning j.id, j.queue, j.kind, j.priority, j.state
  ), tallied as (
    ${waiting}
  )
  select
    m.id, m.epoch, m.lease_id, back.queue,
    case
      when back.id is not null then 'back'
      when free.cancel_requested then 'cancelled'
      when j.id is not null then 'locked'
      else 'lost'
    end as went
  from mine m
  left join stint.job j on ${fenced}
  left join free on free.id = j.id
  left join back on back.id = j.id`,
);

/** `cancelled`: its end was asked for, and it is still ours to record. `locked`: somebody is at it; ask again. */
export type HandedBack = {
  fence: Fence;
  queue: string | null;
  went: "back" | "cancelled" | "locked" | "lost";
};

/**
 * Give back jobs that were claimed but never begun, to their old places: nothing happened to them, so nothing is noted.
 * Rows that somebody has locked are stepped over, as by a renewal: the leases of others must not run out meanwhile.
 */
export async function handBack(
  db: Run,
  fences: readonly Fence[],
  options?: RunOptions,
): Promise<HandedBack[]> {
  const rows = await db.run(handBackJobs, toArrays(fences), options);
  return rows.map((row) => ({
    fence: toFence(row),
    queue: row["queue"] as string | null,
    went: row["went"] as HandedBack["went"],
  }));
}
