import { afterEach, expect, test, vi } from "vitest";
import type { Run } from "../db/db.ts";
import { toSearch } from "./filter.ts";
import { countUpTo, findPage } from "./bounded-search.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** A database without jobs, whose replies take this long on a clock that only they move. */
function empty(tookMs: (sent: number) => number): Run & { sent: number } {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const db = {
    sent: 0,
    async run() {
      now += tookMs(db.sent++);
      return await Promise.resolve([{ id: null, examined: 0, reached: null, count: 0 }]);
    },
  };
  return db;
}

const search = toSearch("jobs", { tenant: "nobody" });

test("the latency of a distant database does not count against the search", async () => {
  const far = empty(() => 120);

  expect(await findPage(far, search, 50)).toEqual({ jobs: [], next: null, partial: false });
  expect(far.sent * 120).toBeGreaterThan(500);
  expect(
    await countUpTo(
      empty(() => 120),
      search,
    ),
  ).toEqual({ count: 0, capped: false });
});

test("slow windows end a search, and so does an extreme latency", async () => {
  const slow = empty((sent) => (sent === 0 ? 5 : 300));
  expect(await findPage(slow, search, 50)).toMatchObject({ partial: true });
  expect(slow.sent).toBe(3);

  const lost = empty(() => 3_000);
  expect(await findPage(lost, search, 50)).toMatchObject({ partial: true });
  expect(lost.sent).toBe(1);
});
