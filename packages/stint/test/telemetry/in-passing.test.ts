import { expect, onTestFinished, test, vi } from "vitest";
import type { Run } from "#stint/db/db.js";
import { foldInPassing } from "#stint/sql/tallies.js";

test("a failed fold in passing is retried after ten minutes", async () => {
  let passedMs = 0;
  const clock = performance.now.bind(performance);
  const spy = vi.spyOn(performance, "now").mockImplementation(() => clock() + passedMs);
  onTestFinished(() => spy.mockRestore());
  let sent = 0;
  const db: Run = {
    run: async () => {
      sent += 1;
      return await Promise.reject(new Error("deadlock detected"));
    },
  };
  await foldInPassing(db);
  await foldInPassing(db);
  expect(sent).toBe(1);
  passedMs = 9 * 60_000;
  await foldInPassing(db);
  expect(sent).toBe(1);
  passedMs = 10 * 60_000 + 1_000;
  await foldInPassing(db);
  expect(sent).toBe(2);
});
