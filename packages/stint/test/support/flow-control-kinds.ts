/** The kinds of the flow-control checker. Its test and its processes declare the same. */
import { defineDependency, defineJob, steps, typed } from "#stint/index.js";

/** What a job is: its number in its kind, its key, how long it runs, and whether its first attempt fails. */
export type Visit = { key: string; n: number; ms: number; fails: boolean };

export const rate = { limit: 150, perMs: 1_000, burst: 15 };
export const quota = { limit: 2_400, per: "minute" } as const;
export const concurrency = 6;
export const maxOfKey = 2;
export const maxOfKind = 5;
export const maxRoomy = 8;
/** The most jobs of the queues `strict` and `shed`, and of a tenant in the first one. */
export const maxDepth = { strict: 20, shed: 12 };
export const maxDepthOfTenant = 6;

export const api = defineDependency("api", {
  concurrency,
  rate: { limit: rate.limit, per: rate.perMs, burst: rate.burst },
  quota,
});

const payload = typed<Visit>();
const soon = { attempts: 25, backoff: steps(10) };

export const metered = defineJob("metered", { payload, uses: [api], ...soon });
export const costly = defineJob("costly", { payload, uses: [{ dependency: api, cost: () => 3 }], ...soon });
export const capped = defineJob("capped", {
  payload,
  limits: [
    { key: ({ key }) => key, max: maxOfKey },
    { name: "all", max: maxOfKind },
  ],
  ...soon,
});
/** Its limit seldom binds. */
export const roomy = defineJob("roomy", { payload, limits: [{ max: maxRoomy }], ...soon });
export const blocking = defineJob("blocking", { payload, order: { key: ({ key }) => key }, ...soon });
export const passing = defineJob("passing", {
  payload,
  order: { key: ({ key }) => key, onFailure: "pass" },
  ...soon,
});
export const strict = defineJob("strict", { queue: "strict", payload, ...soon });
export const shed = defineJob("shed", { queue: "shed", payload, ...soon });

/** Those that are enqueued before the workers start. Producers enqueue the others while they run. */
export const waiting = [metered, costly, capped, roomy, blocking, passing] as const;
export const all = [...waiting, strict, shed] as const;
