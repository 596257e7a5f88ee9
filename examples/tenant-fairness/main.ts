/**
 * Tenant fairness: one tenant imports hundreds of rows, four others have a few jobs each. In the fair queue the small tenants are done after a few
 * rounds; in the plain queue they wait for the whole import.
 *
 *   npm run build && node --import jiti/register examples/tenant-fairness/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, entry, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const payload = z.object({ row: z.number() });
const fairImport = defineJob("fair-import", { queue: "fair-imports", payload });
const plainImport = defineJob("plain-import", { queue: "plain-imports", payload });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });

const stint = createStint({
  database,
  schema,
  logger: silentLogger,
  // Each tenant takes one job in its turn; gold takes three.
  queues: { "fair-imports": { fair: { by: "tenant", weights: { gold: 3 } } } },
});

const order = new Map<string, string[]>([
  ["fair-imports", []],
  ["plain-imports", []],
]);
const note = ({ tenant, queue }: { tenant: string | null; queue: string }): void =>
  void order.get(queue)?.push(tenant ?? "none");
const worker = stint.worker({
  pools: { "fair-imports": 2, "plain-imports": 2 },
  prefetch: false,
  handlers: [handle(fairImport, note), handle(plainImport, note)],
});

// A worker writes the settings of the code when it starts. The settings can also be changed live.
await stint.queueSettings.set(
  "fair-imports",
  { fair: { by: "tenant", weights: { gold: 3 } } },
  { reason: "example" },
);

const tenants = ["gold", "acme", "globex", "initech"];
const jobsOf = (tenant: string, count: number) =>
  [fairImport, plainImport].flatMap((job) =>
    Array.from({ length: count }, (_, row) => entry(job, { row }, { tenant })),
  );
const enqueued = await stint.enqueueMany([
  ...jobsOf("whale", 300),
  ...tenants.flatMap((tenant) => jobsOf(tenant, 6)),
]);

const inspector = stint.inspector();
const { fair, tenants: depths } = await inspector.tenants("fair-imports");
console.log("fair:", fair, "depth:", depths.map(({ tenant, ready }) => `${tenant} ${ready}`).join(", "));
await inspector.close();

await worker.start();
await stint.waitFor(enqueued, { timeout: "60s" });
for (const [queue, served] of order) {
  const last = served.findLastIndex((tenant) => tenant !== "whale");
  console.log(`${queue}: the last job of a small tenant was number ${last + 1} of ${served.length}`);
}

await worker.stop();
await stint.close();
await server?.stop();
