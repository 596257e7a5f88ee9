/**
 * A web handler that asks a queue first, and responds "try later" while the queue is full.
 *
 *   npm run build && node --import jiti/register examples/admission/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createStint, defineJob, QueueFullError, silentLogger, typed } from "stint";
import { migrate, startEmbedded } from "stint/dev";

const report = defineJob("report", { queue: "reports", payload: typed<{ customer: string }>() });

const embedded = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = embedded?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });
await stint.queueSettings.set(
  "reports",
  { admission: { maxDepth: 3, strict: true } },
  { reason: "three reports at a time are enough for this example" },
);

const server = createServer((request, response) => {
  void (async () => {
    const customer = new URL(request.url ?? "/", "http://localhost").searchParams.get("customer") ?? "";
    try {
      // Cheap: it spares the work of preparing a job that would be rejected.
      const { admits, retryAfterMs } = await stint.admission("reports");
      if (!admits) return tryLater(retryAfterMs);
      const { id } = await stint.enqueue(report, { customer });
      response.writeHead(202).end(id);
    } catch (error) {
      // The queue may have become full since.
      if (error instanceof QueueFullError) return tryLater(error.retryAfterMs);
      response.writeHead(500).end();
    }
  })();
  function tryLater(ms: number): void {
    response.writeHead(503, { "retry-after": String(Math.ceil(ms / 1_000)) }).end("The queue is full.");
  }
});
await new Promise<void>((resolve) => void server.listen(0, resolve));
const { port } = server.address() as AddressInfo;

for (let n = 1; n <= 5; n += 1) {
  const { status, headers } = await fetch(`http://localhost:${port}/?customer=c${n}`);
  const hint = headers.get("retry-after");
  console.log(`customer c${n}: ${status}${hint === null ? "" : `, retry after ${hint} s`}`);
}

server.close();
await stint.close();
await embedded?.stop();
