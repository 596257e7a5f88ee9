/**
 * Express with a worker in the same process.
 *
 *   npm run build && node --import jiti/register examples/express/main.ts
 *   curl -X POST localhost:3000/payments/p1
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example and a table example_payment), or an embedded one if that is unset.
 */
import { migrate, startEmbedded } from "stint/dev";
import { startApp } from "./app.ts";

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
await migrate({ connection: database, schema: "stint_example" });
const app = await startApp(database, "stint_example", Number(process.env["PORT"] ?? 3000));
console.log(`listening on ${app.url}`);

const stop = async (): Promise<void> => {
  await app.close();
  await server?.stop();
};
process.once("SIGTERM", () => void stop());
process.once("SIGINT", () => void stop());
