import { expect, test, vi } from "vitest";
import { claimedJob, leasedJobs } from "../../test/support/claimed-job.ts";
import { defineJob, typed } from "../define.ts";
import type { Db } from "../db/db.ts";
import { StoppingError } from "../errors.ts";
import type { ClaimedJob } from "../model/job.ts";
import { Emitter } from "../runtime/emitter.ts";
import { silentLogger } from "../runtime/logger.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { Meter } from "../telemetry/meter.ts";
import type { ClaimLeases } from "./claim-leases.ts";
import type { AttemptDeps } from "./deps.ts";
import { workerEventNames, type WorkerEvents } from "./events.ts";
import { handle } from "./handle.ts";
import type { HandlerFunction } from "./handler.ts";
import { stage } from "./lease-messages.ts";
import { Metering } from "./metering.ts";
import { resolveWorkerOptions } from "./options.ts";
import { AttemptPipeline } from "./pipeline.ts";
import { Pools } from "./pools.ts";
import type { Ended, Settled } from "./settler.ts";

type Settling = {
  ended: Ended;
  respond: (settled: Settled) => void;
  fail: (error: Error) => void;
};

/** A pipeline with one pool whose settler, leases and releaser are the test's. `story` has what it did, in order. */
function pipelineOf(slots: number, run: HandlerFunction<never, unknown>, crowdedReleases: string[] = []) {
  const story: string[] = [];
  const settling: Settling[] = [];
  const claims: ClaimLeases[] = [];
  const work = defineJob("work", { queue: "main", payload: typed() });
  const options = resolveWorkerOptions({
    pools: { main: slots },
    abort: "10ms",
    handlers: [handle(work, run as never)],
  });
  const events = new Emitter<WorkerEvents>((error) => {
    throw error;
  });
  for (const name of workerEventNames) events.on(name, () => story.push(name));
  const pools = new Pools(options.pools, {
    isCrashSuspect: ({ crashes }) => crashes > 0,
    isLimited: ({ limits }) => limits !== null,
    prefetches: true,
    limited: { ahead: 0, room: Infinity },
    excludes: () => false,
  });
  const deps: AttemptDeps = {
    db: {} as Db,
    worker: "w",
    telemetry: undefined,
    options,
    maxResultBytes: 1_000,
    unstorableKinds: new Set(),
    logger: silentLogger,
    pools,
    pauses: { admit: (jobs) => jobs },
    leases: {
      hold: (jobs) => {
        const leased = leasedJobs(jobs);
        claims.push(...leased.slice(0, 1).map(({ leases }) => leases));
        return leased;
      },
      inHandler: (_, call) => call(),
    },
    isolated: { run: () => Promise.reject(new Error("not isolated")) },
    stepWriter: { write: () => Promise.resolve("written") },
    progressWriter: { write: () => Promise.resolve("written") },
    gate: {
      needs: () => undefined,
      close: () => undefined,
      run: async (_, transaction) => await transaction(),
    },
    settler: {
      settle: (ended, onSettled, onFailed) => {
        story.push("settling");
        settling.push({
          ended,
          respond: (settled) => onSettled(settled, ended),
          fail: (error) => onFailed(error, ended),
        });
      },
    },
    releaser: {
      release: async (jobs) => {
        if (jobs.length > 0) story.push(`released ${jobs.map(({ fence }) => fence.job).join(" ")}`);
        return await Promise.resolve();
      },
      idle: async () => await Promise.resolve(),
    },
    quarantine: { releaseSuspects: () => void crowdedReleases.push("suspects") },
    metering: new Metering(new Meter()),
    events,
    onClaimed: () => story.push("onClaimed"),
    onRoom: () => story.push("onRoom"),
    tokens: { requireCosts: () => undefined, isStale: () => false, threw: () => undefined },
    places: {
      isLimited: ({ limits }) => limits !== null,
      needsPlaces: ({ limits }) => limits !== null,
      takeTokens: (jobs) => Promise.resolve(jobs),
      beginInShares: (jobs, begin) => {
        const covered = jobs.every(({ limits }) => limits?.[0] === "covered");
        if (covered) begin();
        return Promise.resolve(covered);
      },
      mayFree: ({ limits }) => limits !== null,
      take: (jobs) => Promise.resolve(jobs.filter(({ limits }) => limits?.[0] !== "full")),
    },
    onPlaceFreed: () => story.push("onPlaceFreed"),
    onRequeued: (_, delayMs) => story.push(`onRequeued ${delayMs > 0 ? "later" : "now"}`),
  };
  const pipeline = new AttemptPipeline(deps);
  const claim = (...jobs: ClaimedJob[]): void => void pipeline.claimed(jobs, monotonicMs());
  const settled = async (count = 1): Promise<Settling> =>
    await vi.waitUntil(() => settling[count - 1], { interval: 1 });
  return { pipeline, pools, story, claims, claim, settled };
}

const stages = (leases: ClaimLeases | undefined): number[] => [...(leases?.claim.stages ?? [])];
const never = async (): Promise<never> => await new Promise(() => undefined);

test("a job passes through every stage in order, and nothing of it is left", async () => {
  const { pipeline, pools, story, claims, claim, settled } = pipelineOf(1, () => undefined);
  claim(claimedJob("a"));
  (await settled()).respond("settled");

  expect(story).toEqual(["onClaimed", "claimed", "began", "settling", "onRoom", "settled", "onRoom"]);
  expect([pools.busy, pipeline.attempts.size, pipeline.attempts.ended]).toEqual([0, 0, 1]);
  expect(stages(claims[0])).toEqual([stage.over]);
});

test("claimed: jobs whose lease is half over when the claim returns are released", () => {
  const { pipeline, story, pools } = pipelineOf(2, never);
  const late = claimedJob("late", { leaseMs: 1_000 });
  void pipeline.claimed([late, claimedJob("fine")], monotonicMs() - 600);

  expect(story).toEqual(["onClaimed", "released late", "claimed", "began"]);
  expect(pools.busy).toBe(1);
});

test("claimed: a job under a limit begins with its place, and never waits for a slot", async () => {
  const { pipeline, story, pools } = pipelineOf(2, never);
  const jobs = ["full", "free", "free"].map((key, index) =>
    claimedJob(`limited-${index}`, { limits: [key] }),
  );
  await pipeline.claimed(jobs, monotonicMs());

  expect(story).toEqual(["onClaimed", "released limited-2", "claimed", "began"]);
  expect(pools.views).toMatchObject([{ busy: 1, waiting: 0 }]);
});

test("hold: jobs without a slot wait, and crash suspects among them are released first", async () => {
  const crowded: string[] = [];
  const { pools, claim, settled } = pipelineOf(1, () => undefined, crowded);
  claim(claimedJob("a"), claimedJob("b"));
  expect(pools.views).toMatchObject([{ busy: 0, waiting: 2 }]);

  expect(crowded).toEqual(["suspects"]);
  expect((await settled(2)).ended.job.fence.job).toBe("b");
});

test("begin: a job claimed after all handlers were asked to stop is released", async () => {
  const run = vi.fn();
  const { pipeline, story, claim, settled } = pipelineOf(1, run);
  pipeline.interruptAll(new StoppingError());
  claim(claimedJob("a"));
  const { ended, respond } = await settled();
  respond("settled");

  expect(ended.verdict).toMatchObject({ ends: false, ending: { outcome: "released" } });
  expect(run).not.toHaveBeenCalled();
  expect([pipeline.attempts.released, story.includes("onRequeued now")]).toEqual([1, true]);
});

test("begin: a job that runs alone has its slot until its outcome is recorded", async () => {
  const { pipeline, pools, settled } = pipelineOf(1, () => undefined);
  let over = false;
  const alone = pipeline.runAlone(claimedJob("a"), monotonicMs()).then(() => (over = true));
  const { respond } = await settled();
  expect([pools.busy, over]).toEqual([1, false]);
  respond("settled");
  await alone;

  expect(pools.busy).toBe(0);
});

test("run: a handler that throws at once has failed, and its slot is free", async () => {
  const { pipeline, pools, settled, claim } = pipelineOf(1, () => {
    throw new Error("no");
  });
  claim(claimedJob("a"));
  const { ended, respond } = await settled();
  expect(ended.verdict).toMatchObject({
    state: "retrying",
    countsAs: "attempt",
    ending: { outcome: "failed" },
  });
  expect(pools.views).toMatchObject([{ busy: 0 }]);
  respond("settled");

  expect(pipeline.attempts.size).toBe(0);
});

test("run: an attempt that outlives its timeout is decided while its handler runs on", async () => {
  let finish = (): void => undefined;
  const work = new Promise<void>((resolve) => (finish = resolve));
  const { pipeline, pools, story, claim, settled } = pipelineOf(1, async () => await work);
  claim(claimedJob("a", { timeoutMs: 20 }));
  const { ended, respond } = await settled();
  expect(ended.verdict).toMatchObject({ ending: { outcome: "timed-out" } });
  respond("settled");
  await vi.waitUntil(() => story.includes("stuck"), { interval: 1 });
  expect([pipeline.attempts.stuck, pools.views[0]?.busy]).toEqual([1, 1]);
  finish();
  await pipeline.idle();

  expect([pipeline.attempts.stuck, pools.busy]).toEqual([0, 0]);
});

test("decide: the first verdict counts, and later ones are ignored", async () => {
  const { pipeline, claim, settled, story } = pipelineOf(1, never);
  claim(claimedJob("a"));
  const [attempt] = pipeline.attempts;
  if (attempt === undefined) throw new Error("no attempt");
  pipeline.cancelled(attempt.job.fence);
  const { ended } = await settled();
  pipeline.decide(attempt, undefined);

  expect(ended.verdict).toMatchObject({ ends: true, state: "cancelled" });
  expect(story.filter((each) => each === "settling")).toHaveLength(1);
});

test("decide: nothing is recorded of an attempt that the stopping worker has released", async () => {
  let finish = (): void => undefined;
  const work = new Promise<void>((resolve) => (finish = resolve));
  const { pipeline, pools, story, claims, claim } = pipelineOf(1, async () => await work);
  claim(claimedJob("a"));
  expect(pipeline.releaseUndecided().map(({ fence }) => fence.job)).toEqual(["a"]);
  expect(pipeline.releaseUndecided()).toEqual([]);
  finish();
  await pipeline.idle();

  expect(story).not.toContain("settling");
  expect([pools.busy, stages(claims[0])]).toEqual([0, [stage.over]]);
});

test.each(["lost", "failed"] as const)(
  "settle: an attempt whose outcome is %s keeps neither slot nor lease",
  async (how) => {
    const { pipeline, pools, story, claims, claim, settled } = pipelineOf(1, () => undefined);
    claim(claimedJob("a"));
    const { respond, fail } = await settled();
    if (how === "lost") respond("lost");
    else fail(new Error("refused"));

    expect([pools.busy, pipeline.attempts.size, pipeline.attempts.unrecorded]).toEqual([0, 0, 0]);
    expect(stages(claims[0])).toEqual([stage.over]);
    expect(story.includes("leaseLost")).toBe(how === "lost");
  },
);

test("settle: a requeued job is due again after its delay", async () => {
  const { story, claim, settled } = pipelineOf(1, async () => await Promise.reject(new Error("no")));
  claim(claimedJob("a"));
  (await settled()).respond("settled");

  expect(story).toContain("onRequeued later");
});

test("forget: a slot that becomes free takes the next waiting job at once", async () => {
  const { pools, claim, settled, story } = pipelineOf(1, () => undefined);
  claim(claimedJob("a"), claimedJob("b"), claimedJob("c"));
  await settled(3);

  expect(pools.views).toMatchObject([{ busy: 0, waiting: 0 }]);
  expect(story.filter((each) => each === "began")).toHaveLength(3);
});
