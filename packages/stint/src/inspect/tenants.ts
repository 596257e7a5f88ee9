import type { TenantDepth } from "../sql/tenants.ts";
import type { WaitingTenant } from "../sql/waiting-tenants.ts";
import type { Count } from "./quantities.ts";

/** Waiting tenants. */
export type WaitingTenants = {
  /** Most first, at most twenty. */
  readonly tenants: readonly WaitingTenant[];
  /** The number of ready jobs examined, with or without a tenant; capped: only the next jobs of each queue were. */
  readonly of: Count;
  /** For one queue: whether its tenants take turns. `tenants(queue)` then has their exact depth. */
  readonly fair?: boolean;
};

/** The tenants of one queue. */
export type QueueTenants = {
  readonly queue: string;
  /** Whether they take turns. */
  readonly fair: boolean;
  /** `weight`: how many jobs the tenant takes in its turn. */
  readonly tenants: readonly (TenantDepth & { readonly weight: number })[];
};
