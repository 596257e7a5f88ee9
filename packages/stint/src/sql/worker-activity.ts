import type { Row, Run } from "../db/db.ts";
import { json, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { leastMs, share } from "../model/slow.ts";
import { unservedKinds } from "./kinds.ts";
import { dayOfRuns, type Runs } from "./series.ts";
import { running, toRunning, type RunningJob } from "./slow.ts";
import { isResponsive } from "./workers.ts";

/** Workers, their jobs, and unserved kinds. One statement, so that they are of one snapshot. */
export type WorkerActivity = {
  readonly workers: readonly {
    readonly pools: Readonly<Record<string, number>>;
    readonly draining: boolean;
  }[];
  /** Running jobs that may be slow, and the run times of their kinds. Most jobs end before they can be slow. */
  readonly perhapsSlow: readonly RunningJob[];
  readonly runs: Runs;
  readonly unserved: readonly {
    readonly kind: string;
    readonly queue: string;
    readonly oldestReadyMs: number;
  }[];
};

const selectActivity = statement(
  "worker-activity",
  `
  with perhaps as materialized (
    select r.*
    from (${running}) r
    where r.running_ms >= ${leastMs} or r.lease_left_ms <= ${1 - share} * coalesce(r.lease_ms, 0)
  )
  select
    (
      select coalesce(jsonb_agg(jsonb_build_object('pools', w.pools, 'draining', w.draining)), '[]')
      from stint.worker w
      where ${isResponsive}
    ) as workers,
    (select coalesce(jsonb_agg(to_jsonb(p)), '[]') from perhaps p) as perhaps_slow,
    (
      select coalesce(jsonb_object_agg(u.kind, u.run), '{}')
      from (${dayOfRuns(" and s.kind = any (array(select p.kind from perhaps p))")}) u
    ) as runs,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', u.kind, 'queue', u.queue, 'oldestReadyMs', extract(epoch from clock_timestamp() - u.oldest) * 1000)), '[]')
      from (${unservedKinds("$1")}) u
    ) as unserved`,
);

export async function workerActivity(db: Run, waitedMs: number): Promise<WorkerActivity> {
  return await readOne(db, selectActivity, [waitedMs], (row) => ({
    workers: json<WorkerActivity["workers"]>(row, "workers"),
    perhapsSlow: json<Row[]>(row, "perhaps_slow").map(toRunning),
    runs: new Map(Object.entries(json<Record<string, number[]>>(row, "runs"))),
    unserved: json<WorkerActivity["unserved"]>(row, "unserved"),
  }));
}
