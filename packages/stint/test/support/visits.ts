import type { Fresh } from "./fresh.ts";

/** Makes the tables in which `limits-process.mjs` notes when its handlers start and end, and a test notes when it killed a process. */
export async function createVisits(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `create table stint.visit (job uuid, epoch bigint, kind text, key text, n integer, pid integer, entered timestamptz, left_at timestamptz)`,
  );
  await fresh.sql(`create table stint.death (pid integer, at timestamptz)`);
}

/** The largest number of handlers that ran at one moment in a group of visits. A killed handler ran until the time in `stint.death`. */
export async function mostAtOnce(fresh: Fresh, group: "key" | "kind", kind: string): Promise<number> {
  const [row] = await fresh.sql<{ most: number }>(
    `select coalesce(max(at_once), 0)::integer as most
     from (
       select sum(change) over (partition by grouped order by at, change rows unbounded preceding) as at_once
       from (
         select ${group} as grouped, entered as at, 1 as change from stint.visit where kind = $1
         union all
         select ${group}, coalesce(left_at, (select min(d.at) from stint.death d where d.pid = v.pid)), -1
         from stint.visit v where kind = $1
       ) changes
     ) counted`,
    [kind],
  );
  return row!.most;
}
