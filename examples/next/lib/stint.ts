import { createStint, type Stint } from "stint";
import { sendReceipt } from "./jobs.ts";

// `next dev` reloads modules; a client per reload would leak connections, so one client is kept on `globalThis`.
const shared = globalThis as { stint?: Stint };

export function stint(): Stint {
  shared.stint ??= createStint({
    database: process.env["DATABASE_URL"],
    schema: process.env["STINT_SCHEMA"] ?? "stint",
    jobs: [sendReceipt],
  });
  return shared.stint;
}
