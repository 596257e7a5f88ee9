import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { findingsOf, healthyServer } from "./support.ts";

const server = healthyServer({
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  autovacuum: "off",
  track_counts: "off",
  max_wal_size: "64MB",
  idle_in_transaction_session_timeout: "0",
});

test("unsafe settings are reported with the statement that corrects them", async () => {
  const fresh = await freshSchema(server.url());

  const findings = await findingsOf(fresh, "settings");

  expect(findings.map(({ level, what }) => `${level}: ${what}`)).toEqual([
    "error: fsync is off",
    "error: full_page_writes is off",
    "warning: synchronous_commit is off for this role",
    "error: autovacuum is off",
    "error: track_counts is off",
    "note: idle_in_transaction_session_timeout is 0",
    "warning: max_wal_size is 64 MB",
  ]);
  expect(findings[0]?.fix).toContain("alter system set fsync = on;");
});
