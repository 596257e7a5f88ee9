/**
 * A worker as a separate Nest application. A web application imports the same module without `JobWorker` to enqueue.
 *
 *   npm run build && node --import jiti/register examples/nest/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { NestFactory } from "@nestjs/core";
import type { Stint } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { sendReceipt, STINT, WorkerModule } from "./worker.module.ts";

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
await migrate({ connection: database, schema: "stint_example" });

const app = await NestFactory.createApplicationContext(WorkerModule.forDatabase(database, "stint_example"));
app.enableShutdownHooks();
await app.get<Stint>(STINT).enqueue(sendReceipt, { paymentId: "p1" });
