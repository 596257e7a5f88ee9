/**
 * Order → charge → ship, with compensation: if the parcel cannot be shipped, the charge is refunded and the goods return to the shelf, in reverse order.
 *
 *   npm run build && node --import jiti/register examples/order-flow/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, entry, handle, PermanentError, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const order = z.object({ orderId: z.string(), country: z.string() });
const reserve = defineJob("reserve", { payload: order, result: z.object({ shelf: z.number() }) });
const charge = defineJob("charge", { payload: order, result: z.object({ chargeId: z.string() }) });
const ship = defineJob("ship", { payload: order, result: z.object({ tracking: z.string() }) });
const refund = defineJob("refund", { payload: order });
const restock = defineJob("restock", { payload: order });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

const handlers = [
  handle(reserve, () => ({ shelf: 7 })),
  // In a real handler the id of the job, or the order's own key, is the idempotency key of the payment provider.
  handle(charge, ({ payload }) => ({ chargeId: `ch_${payload.orderId}` })),
  handle(ship, async ({ payload, results }) => {
    const [charged] = await results(charge);
    // A permanent error is not retried: the flow stops at once.
    if (payload.country === "Atlantis") throw new PermanentError("no carrier ships to Atlantis");
    return { tracking: `T-${payload.orderId}-${charged?.result?.chargeId}` };
  }),
  // A compensation gets the result of the job that it undoes.
  handle(refund, async ({ payload, results }) => {
    const [charged] = await results(charge);
    console.log(`${payload.orderId}: refunded ${charged?.result?.chargeId}`);
  }),
  handle(restock, async ({ payload, results }) => {
    const [reserved] = await results(reserve);
    console.log(`${payload.orderId}: back on shelf ${reserved?.result?.shelf}`);
  }),
];
const worker = stint.worker({ pools: { default: 4 }, handlers });
await worker.start();

/** Call it with `stint.in(tx)` to write the order and its flow in one transaction. */
async function place(payload: z.infer<typeof order>) {
  return await stint.flow("order", {
    reserve: entry(reserve, payload, { compensate: entry(restock, payload) }),
    charge: entry(charge, payload, { after: ["reserve"], compensate: entry(refund, payload) }),
    ship: entry(ship, payload, { after: ["charge"] }),
  });
}

const shipped = await place({ orderId: "A1", country: "Norway" });
console.log("A1:", (await stint.waitFor(shipped.jobs.ship, { timeout: "30s" })).tracking);

const refused = await place({ orderId: "A2", country: "Atlantis" });
const error: unknown = await stint
  .waitFor(refused.jobs.ship, { timeout: "30s" })
  .catch((reason: unknown) => reason);
console.log("A2:", (error as Error).message.includes("no carrier") ? "not shipped" : error);

// The compensations follow one another. The flow itself says when the last has ended.
let flow = await stint.flows.get(refused.id);
while (flow?.state !== "compensated") {
  await new Promise((resolve) => setTimeout(resolve, 50));
  flow = await stint.flows.get(refused.id);
}
console.log(`A2: ${flow.state}, because ${flow.reason?.split(" ")[0]} failed`);

await worker.stop();
await stint.close();
await server?.stop();
