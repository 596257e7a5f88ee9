/**
 * The worker of a Next application: a separate process next to `next start`. Serverless functions end with their request,
 * so they can enqueue but cannot run a worker.
 *
 *   node --import jiti/register worker.ts
 */
import { handle } from "stint";
import { sendReceipt } from "./lib/jobs.ts";
import { stint } from "./lib/stint.ts";

const worker = stint().worker({
  pools: { default: 5 },
  handlers: [handle(sendReceipt, ({ payload }) => console.log(`receipt for ${payload.paymentId} sent`))],
});
// The worker handles SIGTERM and SIGINT: it drains and stops.
worker.on("stopped", () => void stint().close());
await worker.start();
console.log("the worker runs");
