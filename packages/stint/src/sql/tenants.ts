import type { Run } from "../db/db.ts";
import { columns, number, numberOrNull, readMany, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** The jobs of one tenant in one queue. */
export type TenantDepth = {
  /** Null: jobs without a tenant. */
  readonly tenant: string | null;
  readonly ready: number;
  readonly running: number;
  /** How long its oldest ready job has been waiting; null: none is ready. */
  readonly oldestReadyMs: number | null;
};

// Each part goes by its index, so that the jobs of other queues are not read.
const selectTenants = statement(
  "tenants",
  `
  select
    j.tenant,
    count(*) filter (where j.ready)::integer as ready,
    count(*) filter (where not j.ready)::integer as running,
    greatest(0, extract(epoch from clock_timestamp() - min(j.run_at) filter (where j.ready)))::float8 * 1000 as "oldestReadyMs"
  from (
    select r.tenant, true as ready, r.run_at
    from stint.job r
    where r.state = 'ready' and r.queue = stint.by_index($1::text)
    union all
    select r.tenant, false, r.run_at
    from stint.job r
    where r.state = 'running' and r.lease_until >= stint.by_index((select '-infinity'::timestamptz)) and r.queue = $1::text
  ) j
  group by j.tenant
  order by 2 desc, 3 desc, 1
  limit $2`,
);

const toTenantDepth = columns<TenantDepth>({
  tenant: textOrNull,
  ready: number,
  running: number,
  oldestReadyMs: numberOrNull,
});

/** Ready and running jobs of a queue by tenant, those with the most ready jobs first. It counts the jobs of the queue, so it is exact. */
export async function tenants(db: Run, queue: string, limit: number): Promise<TenantDepth[]> {
  return await readMany(db, selectTenants, [queue, limit], toTenantDepth);
}
