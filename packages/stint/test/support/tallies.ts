import type { Fresh } from "./fresh.ts";

/** Queues, kinds and priorities whose tallies differ from their jobs. Right only where no fold has run. */
export async function wrongTallies(fresh: Fresh): Promise<unknown[]> {
  return await fresh.sql(
    `select queue, kind, priority, sum(live) as live, sum(scheduled) as scheduled, sum(retrying) as retrying,
       sum(parked) as parked, sum(dead) as dead
     from (
       select queue, kind, priority, live, scheduled, retrying, parked, dead from stint.tally_delta
       union all
       select queue, kind, priority, - (state not in ('succeeded', 'dead', 'cancelled'))::integer,
         - (state = 'scheduled')::integer, - (state = 'retrying')::integer, - (state = 'parked')::integer,
         - (state = 'dead')::integer
       from stint.jobs
     ) both_sides
     group by queue, kind, priority
     having sum(live) <> 0 or sum(scheduled) <> 0 or sum(retrying) <> 0 or sum(parked) <> 0 or sum(dead) <> 0`,
  );
}
