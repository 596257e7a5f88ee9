/**
 * A job exists exactly if your transaction commits.
 *
 *   npm run build && node --import jiti/register examples/transactional-enqueue/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { Client } from "pg";
import { createStint, defineJob, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const sendReceipt = defineJob("send-receipt", { payload: z.object({ paymentId: z.number() }) });

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = "stint_example";
await migrate({ connection: database, schema });

const stint = createStint({ database, schema, logger: silentLogger });
const db = new Client({ connectionString: database });
await db.connect();
await db.query("create temporary table payment (id int primary key, paid boolean not null)");

async function pay(paymentId: number, ending: "commit" | "rollback"): Promise<string> {
  await db.query("begin");
  await db.query("insert into payment (id, paid) values ($1, true)", [paymentId]);
  const { id } = await stint.in(db).enqueue(sendReceipt, { paymentId });
  await db.query(ending);
  return id;
}

const paid = await pay(1, "commit");
const changedMind = await pay(2, "rollback");
console.log("committed:  ", (await stint.get(paid))?.state); // ready
console.log("rolled back:", await stint.get(changedMind)); // undefined

const worker = stint.worker({
  pools: { default: 5 },
  handlers: [
    handle(sendReceipt, ({ payload }) => console.log(`receipt for payment ${payload.paymentId} sent`)),
  ],
});
await worker.start();
await stint.waitFor(paid, { timeout: "10s" });

await worker.stop();
await stint.close();
await db.end();
await server?.stop();
