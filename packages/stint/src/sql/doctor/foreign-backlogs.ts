import type { Run } from "../../db/db.ts";
import { columns, number, readMany, text, texts } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";
import { isResponsive } from "../workers.ts";

/** Ready jobs in a queue of kinds that some worker of the queue does not serve. */
export type ForeignBacklog = {
  readonly queue: string;
  readonly ready: number;
  /** The kinds of these jobs, at most five. */
  readonly kinds: readonly string[];
  /** How many workers must read past them. */
  readonly workers: number;
};

const selectBacklogs = statement(
  "doctor-foreign-backlogs",
  `
  with depth as materialized (
    select d.queue, d.kind, sum(d.ready) as ready
    from stint.depth d
    group by d.queue, d.kind
    having sum(d.ready) > 0
  ), groups as (
    select w.pools, w.kinds, count(*) as workers
    from stint.worker w
    where ${isResponsive}
    group by w.pools, w.kinds
  )
  select d.queue, f.ready::float8 as ready, f.kinds, g.workers::integer as workers
  from groups g
  cross join (select distinct queue from depth) d
  cross join lateral (
    select sum(o.ready) as ready, (array_agg(o.kind order by o.ready desc, o.kind))[1:5] as kinds
    from depth o
    where o.queue = d.queue and o.kind <> all (g.kinds)
  ) f
  where stint.served_as(g.pools, d.queue) is not null and f.ready >= $1::bigint
  order by f.ready desc, d.queue
  limit 100`,
);

const toBacklog = columns<ForeignBacklog>({ queue: text, ready: number, kinds: texts, workers: number });

/** Backlogs of at least `least` jobs that some workers of a queue do not serve. From the tallies: it counts no jobs. */
export async function foreignBacklogs(db: Run, least: number): Promise<ForeignBacklog[]> {
  return await readMany(db, selectBacklogs, [least], toBacklog);
}
