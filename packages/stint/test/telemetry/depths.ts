import type { Fresh } from "../support/fresh.ts";

export type DepthRow = Record<string, unknown>;

/** The tallies as texts, because sums are numerics. Kinds without jobs are left out. */
export async function tallied(fresh: Fresh): Promise<DepthRow[]> {
  return await fresh.sql(
    `select queue, kind, priority, scheduled::text, ready::text, running::text, retrying::text, parked::text, dead::text
     from stint.depth
     where live <> 0 or scheduled <> 0 or retrying <> 0 or parked <> 0 or dead <> 0 or running <> 0
     order by queue, kind, priority`,
  );
}

/** The truth, found as no part of the product may find it. */
export async function counted(fresh: Fresh): Promise<DepthRow[]> {
  const of = (state: string): string => `count(*) filter (where state = '${state}')::text as ${state}`;
  return await fresh.sql(
    `select queue, kind, priority, ${["scheduled", "ready", "running", "retrying", "parked", "dead"].map(of).join(", ")}
     from stint.jobs
     where state not in ('succeeded', 'cancelled')
     group by queue, kind, priority
     order by queue, kind, priority`,
  );
}
