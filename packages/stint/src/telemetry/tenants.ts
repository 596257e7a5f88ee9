export type TenantCount = { ended: number; runMs: number };

/** How many tenants are counted at once. At the limit, the half with fewest ended attempts is dropped. */
const most = 512;

/** The tenants with most ended attempts since the last `take`. Memory is bounded: rare tenants may be missed, the busiest are not. */
export class Tenants {
  #counts = new Map<string, TenantCount>();

  add(tenant: string, runMs: number): void {
    const found = this.#counts.get(tenant);
    if (found !== undefined) {
      found.ended += 1;
      found.runMs += runMs;
      return;
    }
    if (this.#counts.size >= most) this.#counts = new Map(this.#busiest(most / 2));
    this.#counts.set(tenant, { ended: 1, runMs });
  }

  /** The busiest tenants. All counts start again at zero. */
  take(limit: number): [tenant: string, count: TenantCount][] {
    const busiest = this.#busiest(limit);
    this.#counts = new Map();
    return busiest;
  }

  #busiest(limit: number): [string, TenantCount][] {
    return [...this.#counts].sort(([, a], [, b]) => b.ended - a.ended).slice(0, limit);
  }
}
