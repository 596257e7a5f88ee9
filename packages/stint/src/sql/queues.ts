import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

export type QueueCounts = {
  queue: string;
  scheduled: number;
  ready: number;
  running: number;
  retrying: number;
  parked: number;
  dead: number;
  /** How long the oldest ready job has been waiting. */
  oldestReadyMs: number | null;
};

const countQueues = statement(
  "queues",
  `
  with live as (
    select
      queue,
      count(*) filter (where state = 'scheduled') as scheduled,
      count(*) filter (where state = 'ready') as ready,
      count(*) filter (where state = 'running') as running,
      count(*) filter (where state = 'retrying') as retrying,
      count(*) filter (where state = 'parked') as parked,
      extract(epoch from clock_timestamp() - min(run_at) filter (where state = 'ready')) * 1000 as oldest_ready_ms
    from stint.job
    group by queue
  ), dead as (
    select queue, count(*) as dead
    from stint.history
    where state = 'dead'
    group by queue
  )
  select
    queue,
    coalesce(scheduled, 0)::float8 as scheduled,
    coalesce(ready, 0)::float8 as ready,
    coalesce(running, 0)::float8 as running,
    coalesce(retrying, 0)::float8 as retrying,
    coalesce(parked, 0)::float8 as parked,
    coalesce(dead, 0)::float8 as dead,
    case when oldest_ready_ms is not null then greatest(oldest_ready_ms, 0) end::float8 as "oldestReadyMs"
  from live
  full join dead using (queue)
  order by queue`,
);

/** Count every queue. For people: it reads all live jobs, so no worker calls it. */
export async function queues(db: Run): Promise<QueueCounts[]> {
  return (await db.run(countQueues, [])) as QueueCounts[];
}
