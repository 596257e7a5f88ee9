import { expect, test, vi } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { Db } from "../db/db.ts";
import { LimitShares } from "./limit-shares.ts";

test("a worker that was refused a share asks again soon, then less often", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    let asked = 0;
    const run = async (): Promise<Record<string, unknown>[]> => {
      asked += 1;
      return await Promise.resolve([{ places: null }]);
    };
    const pools = { busy: 0, slots: 1, size: 1 };
    const shares = new LimitShares({ db: { run } as unknown as Db, worker: "w", pools: () => pools });
    const claim = { jobs: [claimedJob("a")], rules: ["kind:call"], begin: () => true };
    const askedIn = async (ms: number): Promise<number> => {
      const before = asked;
      for (let passed = 0; passed < ms; passed += 10) {
        expect(await shares.begin(claim, 1_000)).toBe(false);
        vi.advanceTimersByTime(10);
      }
      return asked - before;
    };
    expect(await askedIn(150)).toBe(2);
    expect(await askedIn(850)).toBe(2);
    expect(await askedIn(60_000)).toBeLessThanOrEqual(15);
  } finally {
    vi.useRealTimers();
  }
});
