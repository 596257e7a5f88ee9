/**
 * An approval with a timeout: the job charges, waits for an approval without holding a slot, and refunds when none arrives in time.
 *
 *   npm run build && node --import jiti/register examples/approval/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const order = defineJob("order", {
  payload: z.object({ orderId: z.string() }),
  result: z.enum(["shipped", "refunded"]),
  key: ({ orderId }) => `order:${orderId}`,
  signals: ["approved"],
});

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

const handler = handle(order, async ({ payload: { orderId }, step, waitForSignal, log }) => {
  await step("charge", () => {
    log("charged");
    console.log(`${orderId}: charged`);
  });
  // The wait holds no slot. The timeout is two seconds here, and could be two days.
  const approval = await waitForSignal("approved", { timeout: "2s", schema: z.object({ by: z.string() }) });
  if (approval === undefined) {
    await step("refund", () => console.log(`${orderId}: not approved in time, refunded`));
    return "refunded";
  }
  await step("ship", () => console.log(`${orderId}: approved by ${approval.by}, shipped`));
  return "shipped";
});

const worker = stint.worker({ pools: { default: 1 }, handlers: [handler] });
await worker.start();

const liked = await stint.enqueue(order, { orderId: "A1" });
const forgotten = await stint.enqueue(order, { orderId: "A2" });
// For example from an internal web page. A signal may arrive before the job waits for it.
await stint.signal("order:A1", "approved", { by: "ann" });

console.log("A1:", await stint.waitFor(liked, { timeout: "30s" })); // shipped
console.log("A2:", await stint.waitFor(forgotten, { timeout: "30s" })); // refunded

await worker.stop();
await stint.close();
await server?.stop();
