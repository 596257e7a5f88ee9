import type { Run } from "../../db/db.ts";
import { columns, flag, number, readMany, text, texts } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";
import { isResponsive } from "../workers.ts";

const selectWorkers = statement(
  "doctor-workers",
  `
  select
    w.id, w.host, w.pid, w.version, array(select jsonb_object_keys(w.pools)) as queues,
    not ${isResponsive} as unresponsive,
    (extract(epoch from clock_timestamp() - w.seen_at) * 1000)::float8 as "heartbeatAgeMs",
    exists (select from stint.job j where j.state = 'running' and j.worker = w.id) as holds
  from stint.worker w
  order by w.started_at, w.id
  limit 1000`,
);

const toWorkerFacts = columns({
  id: text,
  host: text,
  pid: number,
  version: text,
  queues: texts,
  /** Not in sleep mode, and without a heartbeat for too long. */
  unresponsive: flag,
  heartbeatAgeMs: number,
  /** Whether running jobs belong to this worker. */
  holds: flag,
});
export type WorkerFacts = ReturnType<typeof toWorkerFacts>;

export async function workerFacts(db: Run): Promise<WorkerFacts[]> {
  return await readMany(db, selectWorkers, [], toWorkerFacts);
}

export type LateLease = { worker: string; jobs: number; oldestMs: number };

const selectLate = statement(
  "doctor-late-leases",
  `
  select coalesce(worker, '?') as worker, count(*)::integer as jobs,
    (extract(epoch from clock_timestamp() - min(lease_until)) * 1000)::float8 as "oldestMs"
  from (
    select worker, lease_until from stint.job
    where state = 'running' and lease_until < clock_timestamp() - interval '1 minute'
    order by lease_until
    limit 1000
  ) late
  group by worker
  order by 3 desc`,
);

const toLateLease = columns<LateLease>({ worker: text, jobs: number, oldestMs: number });

/** Running jobs whose lease ran out over a minute ago and that were not rescued. */
export async function lateLeases(db: Run): Promise<LateLease[]> {
  return await readMany(db, selectLate, [], toLateLease);
}
