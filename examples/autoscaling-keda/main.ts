/**
 * Autoscaling: a backlog of images, the two numbers that KEDA would read, and `stint autoscale`, which does on this machine what KEDA does in a cluster.
 * `postgresql.yml` and `metrics-api.yml` are the manifests for the cluster.
 *
 *   npm run build && node --import jiti/register examples/autoscaling-keda/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { bearer, createDashboard } from "@stint/dashboard";
import { Client } from "pg";
import { createStint, entry, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { resize } from "./stint.config.ts";

const folder = fileURLToPath(new URL("./", import.meta.url));
const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });
await stint.enqueueMany(Array.from({ length: 30 }, (_, image) => entry(resize, { image })));

// What KEDA's metrics-api scaler reads: the URL and the field of the manifest.
const token = "a-token-of-at-least-sixteen-characters";
const dashboard = createDashboard({ stint, authorize: bearer(token), logger: silentLogger });
const [url, field] = [
  fromManifest("metrics-api.yml", "url"),
  fromManifest("metrics-api.yml", "valueLocation"),
];
const response = await dashboard.fetch(new Request(url, { headers: { authorization: `Bearer ${token}` } }));
const seen = (await response.json()) as Record<string, unknown>;
console.log(`metrics-api: ${field} is ${String(seen[field])}`);
await dashboard.close();

// What its postgresql scaler reads: the query of the manifest.
const query = fromManifest("postgresql.yml", "query");
const client = new Client({ connectionString: database });
await client.connect();
const { rows } = await client.query<Record<string, unknown>>(query.replace('"stint"', `"${schema}"`));
console.log(`postgresql: the query returns ${String(Object.values(rows[0] ?? {})[0])}`);
await client.end();

// On one machine.
const bin = fileURLToPath(new URL("../../packages/stint/bin/stint.js", import.meta.url));
const flags = ["--max", "3", "--target", "5s", "--every", "1s", "--cool-down", "2s", "--json"];
const autoscaler = spawn(process.execPath, [bin, "autoscale", ...flags], {
  cwd: folder,
  env: { ...process.env, DATABASE_URL: database, STINT_SCHEMA: schema },
  stdio: ["ignore", "pipe", "ignore"],
});
const ended = once(autoscaler, "close");
type Event = { event?: string; action?: string; before?: number; processes?: number; reason?: string };
for await (const line of createInterface(autoscaler.stdout)) {
  const { event, action, before, processes, reason } = JSON.parse(line) as Event;
  if (event !== "decision" || action === "keep") continue;
  console.log(`autoscale: ${before} → ${processes}: ${reason}`);
  if (action === "down" && processes === 1) autoscaler.kill("SIGTERM");
}
await ended;

await stint.close();
await server?.stop();

/** The value of a field that the manifest has once. */
function fromManifest(file: string, name: string): string {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  const value = new RegExp(`^ +${name}: (.+)$`, "m").exec(text)?.[1] ?? "";
  return value.startsWith('"') ? (JSON.parse(value) as string) : value;
}
