/**
 * The worker of a Next application: a process of its own beside `next start`. Serverless functions end with their request,
 * so they can enqueue but not work.
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
// Stops by itself on SIGTERM and SIGINT.
worker.on("stopped", () => void stint().close());
await worker.start();
console.log("the worker runs");
