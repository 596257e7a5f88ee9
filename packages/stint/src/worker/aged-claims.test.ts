import { expect, test } from "vitest";
import type { ClaimedJob } from "../model/job.ts";
import { AgedClaims } from "./aged-claims.ts";
import { ClaimOrder } from "./claim-order.ts";

const agingMs = 600_000;
/** The stated bound: workers look for old jobs once a second, and then give them a quarter of their claims. */
const lookMs = 1_000;
const share = 4;

/** A worker that claims `slots` jobs every `everyMs`. There is always an urgent job for each slot that no old job takes. */
function busyWorker({ slots, everyMs }: { slots: number; everyMs: number }) {
  let now = 0;
  let started = 0;
  /** When each waiting job becomes old, the first one first. */
  const waiting: number[] = [];
  const starts: { oldAt: number; at: number; position: number }[] = [];
  const order = new ClaimOrder();
  order.learn([{ queue: "q", fair: null, agingMs }]);
  const aged = new AgedClaims({
    order,
    now: () => now,
    onClaimed: async () => await Promise.resolve(),
    claimer: {
      aged: async ({ limit }) => {
        const old = waiting.filter((oldAt) => oldAt <= now).slice(0, limit);
        waiting.splice(0, old.length);
        for (const [index, oldAt] of old.entries())
          starts.push({ oldAt, at: now, position: started + index });
        return await Promise.resolve(old.map(() => ({}) as ClaimedJob));
      },
    },
  });
  const turn = async (): Promise<void> => {
    const old = (await aged.claim({ queue: "q", limit: slots }, new AbortController().signal)) ?? 0;
    aged.othersClaimed(Array.from({ length: slots - old }, () => ({ queue: "q" })));
    started += slots;
    now += everyMs;
  };
  return { waiting, starts, turn, started: () => started, now: () => now };
}

test.each([
  { slots: 1, everyMs: 50 },
  { slots: 3, everyMs: 400 },
  { slots: 10, everyMs: 5 },
  { slots: 100, everyMs: 700 },
])("an old job starts within the stated bound: $slots slots, $everyMs ms", async ({ slots, everyMs }) => {
  const worker = busyWorker({ slots, everyMs });
  // No old job for a while: the worker looks rarely.
  while (worker.now() < 5_000) await worker.turn();
  const [oldAt, before] = [worker.now() + 100, 40];
  worker.waiting.push(...Array.from({ length: before + 1 }, () => oldAt));
  let startedAtBound: number | undefined;
  while (worker.starts.length <= before) {
    await worker.turn();
    if (worker.now() >= oldAt + lookMs) startedAtBound ??= worker.started();
  }

  const last = worker.starts.at(-1)!;
  // A second, and as many jobs as four times those before it, rounded up to a whole claim.
  expect(last.at <= oldAt + lookMs || last.position - startedAtBound! <= share * (before + 1) + slots).toBe(
    true,
  );
});

test("old jobs take a quarter of the claims, and no more", async () => {
  for (const slots of [1, 3, 10]) {
    const worker = busyWorker({ slots, everyMs: 10 });
    worker.waiting.push(...Array.from({ length: 10_000 }, () => 0));
    while (worker.started() < 4_000) await worker.turn();
    expect(worker.starts.length).toBeGreaterThanOrEqual(1_000 - slots);
    expect(worker.starts.length).toBeLessThanOrEqual(1_000 + slots);
  }
});
