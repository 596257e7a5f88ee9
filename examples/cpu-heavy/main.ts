/**
 * A CPU-heavy kind in a process of its own: the worker's event loop stays free, and a job that uses up its memory costs that job only.
 *
 *   npm run build && node --import jiti/register examples/cpu-heavy/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { countPrimes } from "./jobs.ts";

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });

const stint = createStint({ database, schema, logger: silentLogger });
const worker = stint.worker({
  pools: { default: 2 },
  handlers: [
    handle(countPrimes, new URL("./count-primes.ts", import.meta.url), {
      isolate: { in: "process", memory: "128mb" },
    }),
  ],
});
await worker.start();

const counted = await stint.enqueue(countPrimes, { below: 200_000 });
const { primes, pid } = await stint.waitFor(counted, { timeout: "60s" });
console.log(`primes below 200,000: ${primes}, counted in another process: ${pid !== process.pid}`);

const hoarding = await stint.enqueue(countPrimes, { below: 10, hoard: true });
await stint.waitFor(hoarding, { timeout: "60s" }).catch(() => undefined);
const dead = await stint.get(hoarding.id);
console.log(`the job that hoards memory: ${dead?.state} after ${dead?.crashes} crashes`);
console.log(`its last attempt: ${dead?.log.at(-1)?.error?.message.replace(/^Job \S+: /, "")}`);

await worker.stop();
await stint.close();
await server?.stop();
