/**
 * A second worker in its own process. rescue-story.ts starts it and kills it with SIGKILL.
 *
 * Nothing here prepares for that: the leases are in the database, which is all another worker needs to rescue the jobs.
 */
import { createStint, silentLogger } from "stint";
import { stintSchema } from "./database.ts";
import { agentHandlers } from "./handlers.ts";

/** Messages to the demo process, which prints them. */
export type Message =
  | { readonly type: "started"; readonly worker: string }
  | { readonly type: "claimed"; readonly id: string; readonly kind: string }
  | { readonly type: "settled"; readonly id: string; readonly kind: string; readonly state: string }
  | { readonly type: "leaseLost"; readonly id: string; readonly kind: string };

const stint = createStint({
  database: process.env["DATABASE_URL"] ?? "",
  schema: stintSchema,
  logger: silentLogger,
});
// The worker handles SIGTERM and SIGINT: it drains and stops.
const worker = stint.worker({
  name: "helper",
  pools: { agent: 1 },
  handlers: agentHandlers(),
  drain: "10s",
  abort: "2s",
});

worker.on("claimed", ({ jobs }) => {
  for (const { id, kind } of jobs) report({ type: "claimed", id, kind });
});
worker.on("settled", ({ id, kind, state }) => report({ type: "settled", id, kind, state }));
worker.on("leaseLost", ({ id, kind }) => report({ type: "leaseLost", id, kind }));
// If the demo process is killed, no other process stops this one.
process.on("disconnect", () => process.exit());

await worker.start();
report({ type: "started", worker: worker.id });

function report(message: Message): void {
  process.send?.(message);
}
