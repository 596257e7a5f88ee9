import { createStint, type Stint } from "stint";
import { sendReceipt } from "./jobs.ts";

// `next dev` loads modules again and again; one client must outlive them, or connections pile up.
const shared = globalThis as { stint?: Stint };

export function stint(): Stint {
  shared.stint ??= createStint({
    database: process.env["DATABASE_URL"],
    schema: process.env["STINT_SCHEMA"] ?? "stint",
    jobs: [sendReceipt],
  });
  return shared.stint;
}
