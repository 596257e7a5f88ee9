import { setTimeout as wait } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import { silentLogger } from "../runtime/logger.ts";
import type { Floor } from "../sql/claim.ts";
import type { Claimer } from "./claimer.ts";
import { ClaimLoop } from "./loop.ts";
import { Slots } from "./slots.ts";

const job = (n: number): ClaimedJob =>
  claimedJob(`job-${n}`, { runAt: `2026-01-01 00:00:00.${String(n).padStart(6, "0")}+00` });

/** A loop over one pool, whose claims are answered by the test. `turns` counts how often it looks whether there is room. */
function start(slotCount: number, answer: (limit: number, floors?: readonly Floor[]) => ClaimedJob[]) {
  const slots = new Slots([{ name: "main", queues: ["main"], slots: slotCount }]);
  const seen = { turns: 0, sweeps: 0, onward: 0 };
  const claimer = {
    async ready([take]: readonly { limit: number }[], floors: readonly Floor[] | undefined) {
      if (floors === undefined) seen.sweeps += 1;
      else seen.onward += 1;
      await wait(1);
      return answer(take?.limit ?? 0, floors);
    },
    suspect: async () => await Promise.resolve(undefined),
    suspectWaits: async () => await Promise.resolve(false),
  };
  const stopping = new AbortController();
  const loop = new ClaimLoop({
    slots,
    claimer: claimer as unknown as Claimer,
    logger: silentLogger,
    pollMs: () => 6_000,
    accept: (jobs) => jobs.forEach(({ queue }) => slots.take(queue)),
    runAlone: async () => await Promise.resolve(),
    behind: () => {
      seen.turns += 1;
      return false;
    },
    stuck: () => false,
    listen: async () => await Promise.resolve(false),
  });
  const ended = loop.run(stopping.signal);
  return {
    slots,
    loop,
    seen,
    stop: async () => {
      stopping.abort();
      await ended;
    },
  };
}

test("a loop whose slots are all taken rests, though it owes a sweep", async () => {
  let given = 0;
  // After the first job sweeps find nothing, so that the slots are filled by claims onward.
  const { seen, slots, loop, stop } = start(3, (_, floors) =>
    (floors === undefined && given > 0) || given === 3 ? [] : [job((given += 1))],
  );
  const hints = setInterval(() => loop.hint("main"), 1);
  await vi.waitUntil(() => slots.busy === 3, { timeout: 10_000 });
  clearInterval(hints);
  const before = seen.turns;
  await wait(300);
  await stop();

  expect(seen.onward).toBeGreaterThan(0);
  expect(seen.turns - before).toBeLessThan(10);
});

test("a hint at one queue of a large pool is followed by a claim of that queue, without a search", async () => {
  const slots = new Slots([{ name: "many", queues: ["tenant-*"], slots: 2 }]);
  const sent: string[] = [];
  const stopping = new AbortController();
  const claimer = {
    async ready(takes: readonly { queue: string }[]) {
      sent.push(`claim ${takes.map(({ queue }) => queue).join(" ")}`);
      return await Promise.resolve([]);
    },
    async readyQueues() {
      sent.push("search");
      return await Promise.resolve({ queues: [], after: null });
    },
    suspect: async () => await Promise.resolve(undefined),
    suspectWaits: async () => await Promise.resolve(false),
  };
  const loop = new ClaimLoop({
    slots,
    claimer: claimer as unknown as Claimer,
    logger: silentLogger,
    pollMs: () => 60_000,
    accept: () => undefined,
    runAlone: async () => await Promise.resolve(),
    behind: () => false,
    stuck: () => false,
    listen: async () => await Promise.resolve(false),
  });
  const ended = loop.run(stopping.signal);
  await vi.waitUntil(() => sent.length === 1);
  loop.hint("tenant-7");
  loop.hint("elsewhere");
  await vi.waitUntil(() => sent.length === 2);
  stopping.abort();
  await ended;

  expect(sent.slice(0, 2)).toEqual(["search", "claim tenant-7"]);
});
