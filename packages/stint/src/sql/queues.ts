import type { Run } from "../db/db.ts";
import { readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { standingNow, toStanding } from "./depth.ts";

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

const selectQueues = statement("queues", standingNow);

/** How many jobs each queue holds, by name. From the tallies: it costs the same however many there are. */
export async function queues(db: Run): Promise<QueueCounts[]> {
  const { depth, ages } = await readOne(db, selectQueues, [], toStanding);
  const byName = new Map<string, QueueCounts>();
  for (const { queue, oldestReadyMs } of ages) {
    const none = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };
    const age = oldestReadyMs === null ? null : Math.max(0, oldestReadyMs);
    byName.set(queue, { queue, ...none, oldestReadyMs: age });
  }
  for (const row of depth) {
    const counts = byName.get(row.queue);
    if (counts === undefined) continue;
    counts.scheduled += row.scheduled;
    counts.ready += row.ready;
    counts.running += row.running;
    counts.retrying += row.retrying;
    counts.parked += row.parked;
    counts.dead += row.dead;
  }
  return [...byName.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1));
}

/** The queues that have ready jobs, by the index that claims go by: as many steps as there are queues, whatever they hold. The last is null. */
export const readyQueues = (name: string): string => `${name} (queue) as (
    (select queue from stint.job where state = 'ready' order by queue limit 1)
    union all
    select (select j.queue from stint.job j where j.state = 'ready' and j.queue > q.queue order by j.queue limit 1)
    from ${name} q
    where q.queue is not null
  )`;
