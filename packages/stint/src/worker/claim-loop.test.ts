import { setTimeout as wait } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import { silentLogger } from "../runtime/logger.ts";
import type { Floor, Take } from "../sql/claim.ts";
import { ClaimOrder } from "./claim-order.ts";
import { ClaimScope } from "./claim-scope.ts";
import { CrashQuarantine } from "./crash-quarantine.ts";
import { ClaimLoop } from "./claim-loop.ts";
import { Pools } from "./pools.ts";

const job = (n: number): ClaimedJob =>
  claimedJob(`job-${n}`, { runAt: `2026-01-01 00:00:00.${String(n).padStart(6, "0")}+00` });

type Respond = (takes: readonly Take[], floors?: readonly Floor[]) => ClaimedJob[];

/** A loop over one pool. The test returns the jobs of its claims; each job keeps its slot. `turns` counts scope checks. */
function start(
  queue: string,
  slots: number,
  respond: Respond,
  roundTrip: () => Promise<unknown> = () => wait(1),
) {
  const scope = new ClaimScope({ kinds: ["work"], queues: [queue] });
  const seen = { turns: 0, sweeps: 0, onward: 0 };
  const sent: string[] = [];
  const excluded = new Set<string>();
  const blocked = { everything: false };
  scope.exclude({
    queues: () => new QueueMap([...excluded].map((name) => [name, true])),
    everything: () => {
      seen.turns += 1;
      return blocked.everything;
    },
  });
  const pools = new Pools([{ name: "pool", queues: [queue], slots }], {
    isCrashSuspect: () => false,
    isLimited: () => false,
    prefetches: true,
    limited: { ahead: 0, room: Infinity },
    excludes: (each) => scope.excludes(each),
  });
  const claimer = {
    async ready(takes: readonly Take[], floors: readonly Floor[] | undefined) {
      if (floors === undefined) seen.sweeps += 1;
      else seen.onward += 1;
      sent.push(`claim ${takes.map((take) => take.queue).join(" ")}`);
      await roundTrip();
      return respond(takes, floors);
    },
    urgent: async () => await Promise.resolve([]),
    aged: async () => await Promise.resolve([]),
    fair: async () => await Promise.resolve({ jobs: [], last: null }),
    async readyQueues() {
      sent.push("search");
      return await Promise.resolve({ queues: [], after: null });
    },
    quarantined: async () => await Promise.resolve(undefined),
    quarantinedWaits: async () => await Promise.resolve(false),
  };
  const quarantine = new CrashQuarantine({
    pools,
    scope,
    claimer,
    releaser: { release: async () => await Promise.resolve() },
    runAlone: async () => await Promise.resolve(),
    hasStuck: () => false,
    waitForWake: async () => await Promise.resolve(),
    onRoom: () => undefined,
  });
  const loop = new ClaimLoop({
    order: new ClaimOrder(),
    pools,
    scope,
    claimer,
    quarantine,
    logger: silentLogger,
    pollMs: () => 60_000,
    onClaimed: (jobs) => {
      for (const each of jobs) pools.find(each.queue)?.takeSlot();
      return undefined;
    },
    listens: () => false,
    listen: async () => await Promise.resolve(false),
  });
  const stopping = new AbortController();
  const ended = loop.run(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await ended;
  };
  return { pools, loop, seen, sent, excluded, blocked, stop };
}

test("a loop without free slots rests, even if a sweep is due", async () => {
  let given = 0;
  // After the first job sweeps find nothing, so that claims from the floors fill the slots.
  const { seen, pools, loop, stop } = start("main", 3, (_, floors) =>
    (floors === undefined && given > 0) || given === 3 ? [] : [job((given += 1))],
  );
  const hints = setInterval(() => loop.hint("main"), 1);
  await vi.waitUntil(() => pools.busy === 3, { timeout: 10_000 });
  clearInterval(hints);
  const before = seen.turns;
  await wait(300);
  await stop();

  expect(seen.onward).toBeGreaterThan(0);
  expect(seen.turns - before).toBeLessThan(20);
});

test("a hint at one queue of a searched pool leads to a claim without a search", async () => {
  const { loop, sent, stop } = start("tenant-*", 2, () => []);
  await vi.waitUntil(() => sent.length > 0, { timeout: 10_000 });
  const before = sent.length;
  loop.hint("tenant-7");
  loop.hint("elsewhere");
  await vi.waitUntil(() => sent.length > before, { timeout: 10_000 });
  await stop();

  expect(sent.slice(0, before)).not.toContain("claim tenant-7");
  expect(sent[before]).toBe("claim tenant-7");
});

test("an excluded queue is neither asked nor swept until the exclusion ends", async () => {
  let given = 0;
  const { loop, seen, excluded, stop } = start("main", 9, () => (given < 2 ? [job((given += 1))] : []));
  const claims = (): number => seen.sweeps + seen.onward;
  const hints = setInterval(() => loop.hint("main"), 1);
  await vi.waitUntil(() => given === 2 && seen.onward > 0, { timeout: 10_000 });
  clearInterval(hints);
  excluded.add("main");
  loop.hint("main");
  await wait(100);
  const [before, turns] = [claims(), seen.turns];
  await wait(300);
  expect(claims()).toBe(before);
  expect(seen.turns - turns).toBeLessThan(20);
  excluded.delete("main");
  loop.hint();

  await vi.waitUntil(() => claims() > before, { timeout: 10_000 });
  await stop();
});

test("nothing is claimed while everything is excluded", async () => {
  const { loop, sent, blocked, stop } = start("main", 1, () => []);
  blocked.everything = true;
  await wait(50);
  const before = sent.length;
  loop.hint("main");
  await wait(300);
  expect(sent).toHaveLength(before);
  blocked.everything = false;
  loop.hint("main");

  await vi.waitUntil(() => sent.length > before, { timeout: 10_000 });
  await stop();
});

test("the second claim in a row that finds nothing is followed by a rest", async () => {
  vi.useFakeTimers();
  try {
    let respond = (): void => undefined;
    const { loop, sent, stop } = start(
      "main",
      2,
      () => [],
      () => new Promise<void>((resolve) => (respond = resolve)),
    );
    // A wake arrives during each claim, as in a stream of jobs.
    const claimInVain = async (): Promise<void> => {
      loop.hint("main");
      vi.advanceTimersByTime(4);
      respond();
      for (let turn = 0; turn < 50; turn++) await Promise.resolve();
    };
    await claimInVain();
    expect(sent).toHaveLength(2);
    await claimInVain();
    expect(sent).toHaveLength(2);

    await vi.advanceTimersByTimeAsync(8);
    expect(sent).toHaveLength(3);
    const stopped = stop();
    respond();
    await stopped;
  } finally {
    vi.useRealTimers();
  }
});

/** Without polls, and with responses when the test wants them. */
function startStill(give: Respond = () => []) {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let respond = (): void => undefined;
  const roundTrip = async (): Promise<void> =>
    await new Promise<void>((resolve) => {
      respond = resolve;
    });
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  };
  const reply = async (): Promise<void> => {
    respond();
    await settle();
  };
  return { ...start("main", 2, give, roundTrip), reply, settle };
}

test("a wake that has just arrived is followed by a claim before it returns", async () => {
  const { loop, sent, reply, settle, stop } = startStill();
  await reply();
  expect({ claims: sent.length, turnMs: loop.turnMs }).toEqual({ claims: 1, turnMs: 0 });
  loop.claimAtOnce("main");
  expect(sent).toHaveLength(2);
  await reply();

  // Any other wake continues the loop after the code that gave it.
  loop.hint("main");
  expect(sent).toHaveLength(2);
  await settle();
  expect(sent).toHaveLength(3);
  const stopped = stop();
  await reply();
  await stopped;
});

test("a wake during a claim leads to another claim", async () => {
  const { loop, sent, reply, stop } = startStill();
  await reply();
  loop.claimAtOnce("main");
  loop.claimAtOnce("main");
  expect(sent).toHaveLength(2);
  await reply();
  expect(sent).toHaveLength(3);
  const stopped = stop();
  await reply();
  await stopped;
});

test("room that is made during a claim is used by the next one", async () => {
  let given = 0;
  const give: Respond = (takes) =>
    takes.flatMap(({ limit }) => Array.from({ length: limit }, () => job((given += 1))));
  const { loop, pools, sent, reply, settle, stop } = startStill(give);
  const end = async (): Promise<void> => {
    // A long job, so that nothing is prefetched.
    pools.find("main")?.freeSlot(1_000);
    pools.find("main")?.recorded();
    loop.roomMade("main");
    await settle();
  };
  await reply();
  expect({ claims: sent.length, given }).toEqual({ claims: 1, given: 2 });
  await end();
  expect(sent).toHaveLength(2);
  await end();
  expect(sent).toHaveLength(2);
  await reply();
  expect({ claims: sent.length, given }).toEqual({ claims: 3, given: 3 });
  const stopped = stop();
  await reply();
  await stopped;
});

test("a loop that rests ends when it is stopped, and claims no more", async () => {
  const { loop, sent, reply, settle, stop } = startStill();
  await reply();
  expect(loop.turnMs).toBe(0);
  await stop();
  loop.claimAtOnce("main");
  await settle();
  expect(sent).toHaveLength(1);
});
