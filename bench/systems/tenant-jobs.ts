import type { TenantLoad } from "../core/types.ts";

const batch = 1_000;

/** The jobs in the order of their enqueues, in batches: all of the large tenant, then one of each small tenant in turn. */
export function* tenantJobs({
  large,
  small,
  jobsOfSmall,
}: TenantLoad): Generator<readonly { readonly n: number; readonly tenant: string }[]> {
  const count = large + small * jobsOfSmall;
  for (let first = 0; first < count; first += batch)
    yield Array.from({ length: Math.min(batch, count - first) }, (_, index) => {
      const n = first + index;
      return { n, tenant: n < large ? "large" : `small-${(n - large) % small}` };
    });
}
