/**
 * One handler call for several jobs, with an outcome for each.
 *
 *   npm run build && node --import jiti/register examples/batches/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { createStint, defineJob, entry, handle, silentLogger, typed, type Middleware } from "stint";
import { migrate, startEmbedded } from "stint/dev";

const indexDocument = defineJob("index-document", {
  payload: typed<{ id: number }>(),
  result: typed<string>(),
  attempts: 2,
  backoff: { steps: ["100ms"] },
});

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = "stint_example";
await migrate({ connection: database, schema });
const stint = createStint({ database, schema, logger: silentLogger });

/** A typed value for the context of every job. */
const withIndex: Middleware<{ index: string }> = async ({ tenant }, next) =>
  await next({ index: `documents-${tenant ?? "shared"}` });

const worker = stint.worker({
  pools: { default: 10 },
  handlers: [
    handle(indexDocument, { batch: { size: 10, wait: "200ms" }, middlewares: [withIndex] }, (items) => {
      console.log(`one call for ${items.length} documents`);
      return items.map(({ payload: { id }, index }) =>
        id === 7 ? new Error("document 7 is broken") : `${index}/${id}`,
      );
    }),
  ],
});
await worker.start();

const ids = Array.from({ length: 10 }, (_, id) => id);
const jobs = await stint.enqueueMany(ids.map((id) => entry(indexDocument, { id })));
const results = await stint.waitFor(jobs, { timeout: "20s", onError: "report" });
for (const [id, result] of results.entries())
  console.log(`document ${id}:`, result instanceof Error ? "failed" : result);

await stint.close();
await server?.stop();
