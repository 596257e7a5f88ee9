import type { Run } from "../db/db.ts";
import { flag, json, number, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { readyQueues } from "./queues.ts";

export type WaitingTenant = { readonly tenant: string; readonly ready: number };

export type LinedUp = {
  readonly tenants: readonly WaitingTenant[];
  readonly lookedAt: number;
  /** Whether all that is ready was looked at. */
  readonly all: boolean;
};

/** More queues than this are not looked into. */
const mostQueues = 1_000;

// By the index that claims go by, which has the queue first: so each queue gets its share of the look. Else the first of them would
// take all of it.
const selectWaiting = statement(
  "waiting-tenants",
  `
  with recursive ${readyQueues("names")}, queues as materialized (
    select queue from names where queue is not null and ($3::text is null or queue = $3) limit ${mostQueues}
  ), share as materialized (
    select greatest(1, $1::integer / greatest(1, count(*)))::integer as jobs, count(*) as queues from queues
  ), looked as materialized (
    select q.queue, next.tenant
    from queues q
    cross join lateral (
      select j.tenant
      from stint.job j
      where j.state = 'ready' and j.queue = stint.by_index(q.queue)
      order by j.priority, j.run_at, j.id
      limit (select jobs from share)
    ) next
  ), tenants as (
    select tenant, count(*)::integer as ready
    from looked
    where tenant is not null
    group by tenant
    order by 2 desc, 1
    limit $2::integer
  )
  select
    (select count(*) from looked)::integer as looked_at,
    (select queues from share) < ${mostQueues}
      and not exists (select from looked group by queue having count(*) >= (select jobs from share)) as is_all,
    (select coalesce(jsonb_agg(to_jsonb(t) order by t.ready desc, t.tenant), '[]') from tenants t) as tenants`,
);

/** Whose jobs are next: among the first ready jobs of each queue, or of one, `most` in all. */
export async function waitingTenants(
  db: Run,
  { most, tenants, queue = null }: { most: number; tenants: number; queue?: string | null },
): Promise<LinedUp> {
  return await readOne(db, selectWaiting, [most, tenants, queue], (row) => ({
    tenants: json<WaitingTenant[]>(row, "tenants"),
    lookedAt: number(row, "looked_at"),
    all: flag(row, "is_all"),
  }));
}
