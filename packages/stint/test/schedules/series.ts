import type { Fresh } from "../support/fresh.ts";

export type Series = {
  schedule: string;
  fired: number;
  others: number;
  gaps: number;
  jobs: number;
  slots: number;
};

/** What the ledger and the jobs say of each schedule: gaps between its slots, and jobs that are missing, doubled or of no slot. */
export async function series(fresh: Fresh): Promise<Series[]> {
  return await fresh.sql<Series>(`
    with jobs as (
      select meta #>> '{schedule,name}' as schedule, meta #>> '{schedule,slot}' as slot, id from stint.jobs
    ), per_job as (
      select schedule, count(*)::int as jobs, count(distinct slot)::int as slots from jobs group by schedule
    )
    select s.schedule, count(*) filter (where outcome = 'fired')::int as fired, count(*) filter (where outcome <> 'fired')::int as others,
      (extract(epoch from max(slot) - min(slot)) + 1 - count(*))::int as gaps, j.jobs, j.slots
    from stint.schedule_slot s
    left join per_job j using (schedule)
    group by s.schedule, j.jobs, j.slots
    order by s.schedule`);
}

/** Those of which a slot was lost or doubled, or has no job or several. */
export const firedOnce = (all: readonly Series[]): Series[] =>
  all.filter(
    ({ fired, others, gaps, jobs, slots }) => others !== 0 || gaps !== 0 || jobs !== fired || slots !== fired,
  );
