/**
 * Per-account concurrency: at most two charges of an account at once, over all workers, and the events of an account in order. The limit is
 * raised while jobs wait for it.
 *
 *   npm run build && node --import jiti/register examples/account-limits/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { createStint, defineJob, entry, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const charge = defineJob("charge", {
  payload: z.object({ account: z.string(), cents: z.number() }),
  limits: [{ name: "charges", key: ({ account }) => account, max: 2 }],
});
const applyEvent = defineJob("apply-event", {
  payload: z.object({ account: z.string(), event: z.string() }),
  order: { key: ({ account }) => account },
});

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });

const running = new Map<string, number>();
const most = new Map<string, number>();
const applied: string[] = [];
const handlers = [
  handle(charge, async ({ payload: { account } }) => {
    const now = (running.get(account) ?? 0) + 1;
    running.set(account, now);
    most.set(account, Math.max(now, most.get(account) ?? 0));
    await sleep(20);
    running.set(account, (running.get(account) ?? 1) - 1);
  }),
  handle(applyEvent, async ({ payload: { event } }) => {
    await sleep(5);
    applied.push(event);
  }),
];

const stint = createStint({ database, schema, logger: silentLogger });
const workers = [1, 2].map(() => stint.worker({ pools: { default: 10 }, handlers }));
await Promise.all(workers.map((worker) => worker.start()));

const charges = await stint.enqueueMany(
  Array.from({ length: 6 }, (_, n) => entry(charge, { account: n % 2 === 0 ? "a" : "b", cents: 100 * n })),
);
const events = await stint.enqueueMany(
  ["opened", "deposited", "closed"].map((event) => entry(applyEvent, { account: "a", event })),
);
await stint.waitFor([...charges, ...events], { timeout: "30s" });
console.log(
  "most charges at once:",
  [...most]
    .map(([account, count]) => `${account} ${count}`)
    .toSorted()
    .join(", "),
);
console.log("events of account a:", applied.join(", "));

// Account a alone may have three from now on. Every change is in the audit log.
await stint.limits.set("key:charges=a", 3, { reason: "example" });
console.log("limits:", (await stint.limits.list()).map(({ name, max }) => `${name} ${max}`).join(", "));
await stint.limits.set("key:charges=a", null, { reason: "example" });

await Promise.all(workers.map((worker) => worker.stop()));
await stint.close();
await server?.stop();
