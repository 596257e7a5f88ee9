/**
 * A second worker, in a process of its own, started by rescue-story.ts to be killed with -9.
 *
 * Nothing here prepares for that. Its leases are in the database, and that is all another worker needs.
 */
import { createStint, silentLogger } from "stint";
import { stintSchema } from "./database.ts";
import { agentHandlers } from "./handlers.ts";

/** What the demo is told, to tell it to you. */
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
// It stops by itself, draining first, on SIGTERM and SIGINT.
const worker = stint.worker({
  name: "helper",
  pools: { agent: 1 },
  handlers: agentHandlers(),
  drain: "10s",
  abort: "2s",
});

worker.on("claimed", ({ jobs }) => {
  for (const { id, kind } of jobs) tell({ type: "claimed", id, kind });
});
worker.on("settled", ({ id, kind, state }) => tell({ type: "settled", id, kind, state }));
worker.on("leaseLost", ({ id, kind }) => tell({ type: "leaseLost", id, kind }));
// If the demo itself is killed, nobody is left to stop this process.
process.on("disconnect", () => process.exit());

await worker.start();
tell({ type: "started", worker: worker.id });

function tell(message: Message): void {
  process.send?.(message);
}
