/**
 * Express with a worker in the same process.
 *
 *   npm run build
 *   npx esbuild examples/express/main.ts --bundle --packages=external --platform=node --format=esm --outfile=examples/express/dist/main.js
 *   node examples/express/dist/main.js
 *   curl -X POST localhost:3000/payments/p1
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example and a table example_payment), or an embedded one if that is unset.
 */
import { migrate, startEmbedded } from "stint/dev";
import { startApp } from "./app.ts";

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const app = await startApp(database, schema, Number(process.env["PORT"] ?? 3000));
console.log(`listening on ${app.url}`);

const stop = async (): Promise<void> => {
  await app.close();
  await server?.stop();
};
process.once("SIGTERM", () => void stop());
process.once("SIGINT", () => void stop());
