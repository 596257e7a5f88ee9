/** The busy night: waiting tenants, priorities, and dead jobs grouped by error. */
import type { DeadGroups, Depth, Stats, WaitingTenants } from "stint/inspect";

const minute = 60_000;
const depth: Depth = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };

export const stats = (): Pick<Stats, "byPriority" | "topTenants"> => ({
  byPriority: [
    { queue: "embedding", priority: 0, depth: { ...depth, ready: 12 } },
    { queue: "notification", priority: -10, depth: { ...depth, ready: 4, running: 2 } },
    { queue: "notification", priority: 0, depth: { ...depth, ready: 8_412, running: 6, dead: 31 } },
  ],
  topTenants: [
    { tenant: "school-12", ended: 18_204, runMs: 9_134_000 },
    { tenant: "school-7", ended: 402, runMs: 210_000 },
  ],
});

export const waitingTenants = (): WaitingTenants => ({
  tenants: [
    { tenant: "school-12", ready: 8_930 },
    { tenant: "school-7", ready: 241 },
  ],
  of: { count: 10_000, capped: true },
});

export const deadGroups = (): DeadGroups => ({
  groups: [
    {
      kind: "send-receipt",
      fingerprint: "0a1b2c3d4e5f",
      error: "MailRefused: … Try again later, closing connection",
      count: 9_412,
      newest: new Date(Date.now() - minute),
      oldest: new Date(Date.now() - 300 * minute),
      example: "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a12",
    },
    {
      kind: "deliver-webhook",
      fingerprint: "aaaabbbbcccc",
      error: "HTTP …: the other side said no",
      count: 1,
      newest: new Date(Date.now() - 40 * minute),
      oldest: new Date(Date.now() - 40 * minute),
      example: "019a8f3e-6d1c-7c3b-9b1e-2f6f6d1f0a13",
    },
  ],
  others: 3,
  of: { count: 10_000, capped: true },
});
