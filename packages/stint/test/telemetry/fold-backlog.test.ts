import { expect, onTestFinished, test, vi } from "vitest";
import type { Run } from "#stint/db/db.js";
import { foldBacklog } from "#stint/sql/tallies.js";

test("a failed fold of a backlog is retried after ten minutes", async () => {
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
  await foldBacklog(db);
  await foldBacklog(db);
  expect(sent).toBe(1);
  passedMs = 9 * 60_000;
  await foldBacklog(db);
  expect(sent).toBe(1);
  passedMs = 10 * 60_000 + 1_000;
  await foldBacklog(db);
  expect(sent).toBe(2);
});
