/**
 * An API of 60 calls a minute, shared by three kinds: the calls of all workers together keep the rate, and a 429 of one job holds back all.
 *
 *   npm run build && node --import jiti/register examples/shared-api/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset. To end soon, a minute lasts three seconds here.
 */
import {
  createStint,
  defineDependency,
  defineJob,
  entry,
  handle,
  RateLimitedError,
  silentLogger,
} from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const minute = "3s";
const api = defineDependency("api", {
  concurrency: { max: 4, min: 1, recover: "1s" },
  rate: { limit: 60, per: minute, burst: 5 },
  quota: { limit: 1_000, per: "day", zone: "UTC" },
});
const payload = z.object({ text: z.string() });
const summarize = defineJob("summarize", { payload, uses: [api] });
const translate = defineJob("translate", { payload, uses: [api] });
// Two calls for each job.
const classify = defineJob("classify", { payload, uses: [{ dependency: api, cost: () => 2 }] });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });

let calls = 0;
let refused = 0;
/** An API that refuses its twentieth call. */
function call(): void {
  calls += 1;
  if (calls !== 20) return;
  refused += 1;
  throw new RateLimitedError({ retryAfter: "500ms" });
}

const stint = createStint({ database, schema, logger: silentLogger });
const handlers = [summarize, translate, classify].map((job) => handle(job, call));
const workers = [1, 2].map(() => stint.worker({ pools: { default: 10 }, handlers }));
await Promise.all(workers.map((worker) => worker.start()));

const jobs = await stint.enqueueMany(
  Array.from({ length: 30 }, (_, n) =>
    entry([summarize, translate, classify][n % 3] ?? summarize, { text: `text ${n}` }),
  ),
);
await stint.waitFor(jobs, { timeout: "60s" });
const [status] = await stint.dependencies.list();
console.log(`calls: ${calls}, refused: ${refused}`);
console.log(`tokens used of the quota: ${1_000 - (status?.quotaLeft ?? 0)}`);
console.log(`kinds: ${status?.kinds.join(", ")}`);
const attempts = await Promise.all(jobs.map(async ({ id }) => (await stint.get(id))?.attempts));
console.log(`attempts spent by the refused job: ${Math.max(...attempts.map((count) => count ?? 0)) - 1}`);

await Promise.all(workers.map((worker) => worker.stop()));
await stint.close();
await server?.stop();
