export type TenantCount = { ended: number; runMs: number };

/** So many are counted at once. Beyond that, the half with fewest ends is forgotten. */
const most = 512;

/** Whose attempts ended most often since somebody last asked. Bounded, so rare tenants may be missed; the busiest are not. */
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

  /** The busiest, which are then counted anew. */
  take(limit: number): [tenant: string, count: TenantCount][] {
    const busiest = this.#busiest(limit);
    this.#counts = new Map();
    return busiest;
  }

  #busiest(limit: number): [string, TenantCount][] {
    return [...this.#counts].sort(([, a], [, b]) => b.ended - a.ended).slice(0, limit);
  }
}
