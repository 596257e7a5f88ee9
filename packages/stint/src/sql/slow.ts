import type { Row, Run } from "../db/db.ts";
import { number, numberOrNull, readMany, text, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** A running job and its limits. */
export type RunningJob = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly worker: string | null;
  readonly attempt: number;
  readonly runningMs: number;
  /** Time until its lease runs out; negative if it has. */
  readonly leaseLeftMs: number;
  /** The job's own or its kind's registered value. */
  readonly leaseMs: number | null;
  readonly timeoutMs: number | null;
  /** Time since the last report of its handler. */
  readonly quietMs: number;
  readonly stallAfterMs: number | null;
};

/** At most this many are read, those whose lease runs out first. */
const most = 1_000;

/** Milliseconds since the handler of the running job `row` last reported a step, a checkpoint, progress or a log line. */
export const quietMs = (row: string): string => `(extract(epoch from clock_timestamp() - greatest(
      ${row}.claimed_at,
      (select p.at from stint.progress p where p.job_id = ${row}.id),
      (select max(s.at) from stint.step s where s.job_id = ${row}.id)
    )) * 1000)::float8`;

export const running = `
  select
    j.id, j.kind, j.queue, j.worker, j.attempts,
    (extract(epoch from clock_timestamp() - j.claimed_at) * 1000)::float8 as running_ms,
    (extract(epoch from j.lease_until - clock_timestamp()) * 1000)::float8 as lease_left_ms,
    coalesce(j.lease_ms, k.lease_ms)::float8 as lease_ms,
    coalesce(j.timeout_ms, k.timeout_ms)::float8 as timeout_ms,
    k.stall_after_ms::float8,
    case when k.stall_after_ms is not null then ${quietMs("j")} end as quiet_ms
  from (
    select * from stint.job where state = 'running' order by lease_until limit ${most}
  ) j
  left join stint.kind k on k.name = j.kind`;

const selectRunning = statement("running", running);

/** Running jobs, up to a thousand. */
export async function runningJobs(db: Run): Promise<RunningJob[]> {
  return await readMany(db, selectRunning, [], toRunning);
}

export function toRunning(row: Row): RunningJob {
  return {
    id: text(row, "id"),
    kind: text(row, "kind"),
    queue: text(row, "queue"),
    worker: textOrNull(row, "worker"),
    attempt: number(row, "attempts"),
    runningMs: numberOrNull(row, "running_ms") ?? 0,
    leaseLeftMs: number(row, "lease_left_ms"),
    leaseMs: numberOrNull(row, "lease_ms"),
    timeoutMs: numberOrNull(row, "timeout_ms"),
    quietMs: numberOrNull(row, "quiet_ms") ?? 0,
    stallAfterMs: numberOrNull(row, "stall_after_ms"),
  };
}
