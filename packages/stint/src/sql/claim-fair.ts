import type { Run, RunOptions } from "../db/db.ts";
import { textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { ClaimedJob } from "../model/job.ts";
import type { FairTurn, TenantWeights } from "../model/fairness.ts";
import { claimValues, inTime, leased, type ClaimInput } from "./claim.ts";
import { claimedColumns } from "./job-columns.ts";
import { toClaimedJob } from "./rows.ts";

/** The ready jobs of fair queues, as `job_fair` has them: with `state = 'ready'`, the planner may read the whole queue in `job_ready` for each tenant. */
const isShared = (job: string): string =>
  `${job}.state >= 'ready' and ${job}.state <= 'ready' and ${job}.fair_tenant is not null`;

/** The first tenant of queue $7 with a ready job that fits `where`. One look at the index, however many jobs the tenants have. */
const firstTenant = (where: string): string => `
      select f.fair_tenant
      from stint.job f
      where ${isShared("f")}
        and f.queue = stint.by_index($7::text)
        and ${where}
      order by f.fair_tenant
      limit 1`;

/** The tenants with ready jobs that fit `where`, in their order, one look at the index for each. The last row is null. */
const walkTenants = (name: string, where: string): string => `${name} (tenant) as (
    (${firstTenant(where)}
    )
    union all
    select (${firstTenant(`${where} and f.fair_tenant > last.tenant`)}
    )
    from ${name} last
    where last.tenant is not null
  )`;

const weight = `coalesce(($11::jsonb ->> t.tenant)::integer, ($11::jsonb ->> '*')::integer, 1)`;

/**
 * Deficit round robin over the tenants with ready jobs: from tenant $9 on, each takes as many jobs as its weight, by priority, run time and id. A tenant
 * whose quota the limit of the last claim cut off begins with the rest of it, $10. If the weights of all tenants are together less than the limit,
 * each takes its quota as often as all of them can.
 *
 * All parts are read lazily: the limit of `picked` ends the walk through the tenants, so a claim visits no more tenants than it takes jobs, beside
 * tenants whose jobs other sessions have locked, and locks no job that it does not take.
 */
const claimText = `
  with recursive ${walkTenants("ahead", "f.fair_tenant >= $9::text")}, ${walkTenants("behind", "f.fair_tenant < $9::text")}, tenants as materialized (
    select tenant from ahead where tenant is not null
    union all
    select tenant from behind where tenant is not null
  ), rounds as materialized (
    select greatest(1, $8::integer / greatest(1, sum(${weight})))::integer as rounds
    from (select tenant from tenants limit $8::integer) t
  ), visits as (
    select
      t.tenant, row_number() over () as visit, ${weight} as weight,
      ${weight} * (select rounds from rounds) - case when t.tenant = $9::text and $10::integer > 0 then ${weight} - $10::integer else 0 end as quota
    from tenants t
  ), picked as materialized (
    select job.*, v.tenant, v.visit, v.weight, v.quota
    from visits v
    cross join lateral (
      select r.ctid, r.id, r.priority, r.run_at
      from stint.job r
      where ${isShared("r")}
        and r.queue = stint.by_index($7::text)
        and r.fair_tenant = stint.by_index(v.tenant)
        and r.kind = any ($5::text[])
      order by r.priority, r.run_at, r.id
      limit v.quota
      for update skip locked
    ) job
    limit $8::integer
  ), taken as (
    update stint.job j
    set ${leased}
    where j.ctid = any (array(select p.ctid from picked p))
      and j.state >= 'ready' and j.state <= 'ready'
      and ${inTime}
    returning ${claimedColumns}
  )
  select taken.*, (
    select json_build_object('tenant', p.tenant, 'left', p.quota - count(*))::text
    from picked p
    group by p.visit, p.tenant, p.quota
    order by p.visit desc
    limit 1
  ) as turn
  from taken
  join (
    select p.id as picked, p.visit, row_number() over (partition by p.visit order by p.priority, p.run_at, p.id) as place, p.weight
    from picked p
  ) turns on turns.picked = taken.id
  -- In rounds, as the tenants would have taken turns one job after the other.
  order by (turns.place - 1) / turns.weight, turns.visit, turns.place`;

const claimFairly = statement("claim-fair", claimText, { asText: true });

export type FairClaimInput = Omit<ClaimInput, "takes"> & {
  readonly queue: string;
  readonly limit: number;
  readonly turn: FairTurn;
  readonly weights: TenantWeights;
};

/** The jobs of a fair claim in the order of the turns, and the last tenant it visited with the rest of its quota; null if it took none. */
export type FairClaim = { readonly jobs: ClaimedJob[]; readonly last: FairTurn | null };

/**
 * Lease up to `limit` ready jobs of one fair queue, shared among its tenants. Fewer jobs than asked for do not mean that the queue is empty: a tenant
 * may have had fewer jobs than its quota.
 */
export async function claimFair(db: Run, input: FairClaimInput, options?: RunOptions): Promise<FairClaim> {
  const { queue, limit, turn, weights } = input;
  const values = [...claimValues(input), queue, limit, turn.tenant, turn.left, JSON.stringify(weights)];
  const rows = await db.run(claimFairly, values, options);
  const [first] = rows;
  const last = first === undefined ? null : textOrNull(first, "turn");
  return {
    jobs: rows.map((row) => toClaimedJob(row, input)),
    last: last === null ? null : (JSON.parse(last) as FairTurn),
  };
}
