import { setTimeout as sleep } from "node:timers/promises";
import { createStint, handle, silentLogger } from "stint";
import { importRows } from "./jobs.ts";

const batch = 100;
const stint = createStint({
  database: process.env["DATABASE_URL"] ?? "",
  schema: process.env["STINT_SCHEMA"] ?? "stint_example",
  logger: silentLogger,
});

const handler = handle(importRows, async ({ payload, checkpoint, lastCheckpoint, progress }) => {
  const resumedAt = (await lastCheckpoint<number>()) ?? 0;
  for (let row = resumedAt; row < payload.rows; row += batch) {
    // A batch whose checkpoint was not stored runs again, so its writes must be idempotent.
    await sleep(100);
    progress((row + batch) / payload.rows, `row ${row + batch}`);
    await checkpoint(row + batch);
    console.log(`imported rows ${row} to ${row + batch - 1}`);
  }
  return { rows: payload.rows, resumedAt };
});

await stint.worker({ pools: { default: 1 }, handlers: [handler] }).start();
