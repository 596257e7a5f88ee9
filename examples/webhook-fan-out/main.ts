/**
 * A fan-out of 500 webhooks with one summary: a batch whose callback runs once, when the last delivery has ended, however it ended.
 *
 *   npm run build && node --import jiti/register examples/webhook-fan-out/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createStint, defineJob, entry, handle, PermanentError, silentLogger, steps } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const deliver = defineJob("deliver", {
  payload: z.object({ url: z.string(), event: z.string() }),
  result: z.object({ status: z.number() }),
  // Short, so that the example ends soon. The default grows from seconds to minutes.
  backoff: steps(50),
  attempts: 3,
  timeout: "10s",
});
const summary = defineJob("summary", {
  payload: z.object({ event: z.string() }),
  result: z.object({ delivered: z.number(), failed: z.number() }),
});

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

// The customers' servers: every tenth is overloaded at first, every hundredth no longer exists.
const seen = new Set<string>();
const customers = createServer((request, response) => {
  const n = Number(request.url?.slice(1));
  const first = !seen.has(request.url ?? "");
  seen.add(request.url ?? "");
  response.writeHead(n % 100 === 0 ? 410 : n % 10 === 0 && first ? 503 : 200).end();
});
await new Promise<void>((resolve) => customers.listen(0, "127.0.0.1", resolve));
const { port } = customers.address() as AddressInfo;

const worker = stint.worker({
  pools: { default: 50 },
  handlers: [
    handle(deliver, async ({ payload: { url, event }, id, signal }) => {
      // The receiver recognises a repeated delivery by the id of the job.
      const headers = { "content-type": "application/json", "x-delivery": id };
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify({ event }), signal });
      if (response.status === 410) throw new PermanentError(`${url} is gone`);
      if (!response.ok) throw new Error(`${url} returned ${response.status}`);
      return { status: response.status };
    }),
    handle(summary, async ({ results }) => {
      const all = await results(deliver);
      const delivered = all.filter(({ state }) => state === "succeeded").length;
      return { delivered, failed: all.length - delivered };
    }),
  ],
});
await worker.start();

const event = "invoice.paid";
const urls = Array.from({ length: 500 }, (_, n) => `http://127.0.0.1:${port}/${n}`);
const batch = await stint.batch(
  urls.map((url) => entry(deliver, { url, event })),
  { name: "webhooks", onComplete: entry(summary, { event }) },
);
const { delivered, failed } = (await stint.waitFor(batch.callback, { timeout: "60s" })) as {
  delivered: number;
  failed: number;
};
console.log(`delivered ${delivered}, failed ${failed}`); // delivered 495, failed 5
const flow = await stint.flows.get(batch.id);
console.log(`${flow?.name}: ${flow?.succeeded} succeeded, ${flow?.dead} dead`);

await worker.stop();
await stint.close();
customers.closeAllConnections();
await new Promise((resolve) => customers.close(resolve));
await server?.stop();
