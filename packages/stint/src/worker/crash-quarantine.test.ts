import { expect, test, vi } from "vitest";
import { claimedJob } from "../../test/support/claimed-job.ts";
import type { ClaimedJob } from "../model/job.ts";
import { CrashQuarantine } from "./crash-quarantine.ts";

/** A quarantine with these jobs in it, on a worker that is as busy as the test says. */
function quarantineOf(...jobs: ClaimedJob[]) {
  const story: string[] = [];
  const worker = { busy: 0, stuck: false, isEmpty: false, waits: true, suspects: [] as ClaimedJob[] };
  let wake = (): void => undefined;
  const quarantine = new CrashQuarantine({
    pools: {
      get busy() {
        return worker.busy;
      },
      isCrashSuspect: ({ crashes }) => crashes > 0,
      releaseWaiting: (which?: (job: ClaimedJob) => boolean) =>
        worker.suspects.filter((job) => which === undefined || which(job)),
    },
    scope: {
      get isEmpty() {
        return worker.isEmpty;
      },
    },
    claimer: {
      quarantined: async () => {
        story.push("claim");
        return await Promise.resolve(jobs.shift());
      },
      quarantinedWaits: async () => {
        story.push("reserve");
        return await Promise.resolve(worker.waits);
      },
    },
    releaser: {
      release: async (released) => {
        story.push(`release ${released.map(({ fence }) => fence.job).join(" ")}`);
        return await Promise.resolve();
      },
    },
    runAlone: async ({ fence }) => {
      story.push(`run ${fence.job} beside ${worker.busy}`);
      return await Promise.resolve();
    },
    hasStuck: () => worker.stuck,
    waitForWake: async () => await new Promise<void>((resolve) => (wake = resolve)),
    onRoom: (queue) => story.push(`room in ${queue}`),
  });
  const { signal } = new AbortController();
  const investigate = async (): Promise<boolean> => await quarantine.investigate(signal);
  return { quarantine, worker, story, investigate, wake: () => wake() };
}

test("an idle worker runs quarantined jobs one after the other, then rests", async () => {
  const { story, investigate } = quarantineOf(claimedJob("a"), claimedJob("b"));
  expect([await investigate(), await investigate(), await investigate()]).toEqual([true, true, false]);
  expect(story).toEqual(["claim", "run a beside 0", "claim", "run b beside 0", "claim"]);
  await investigate();

  expect(story).toHaveLength(5);
});

test("a hint ends the rest of an idle worker", async () => {
  const { quarantine, story, investigate } = quarantineOf();
  await investigate();
  quarantine.hint();
  await investigate();

  expect(story).toEqual(["claim", "claim"]);
});

test("a worker that found other work rests from quarantine, whatever the check sees", async () => {
  const { quarantine, story, investigate } = quarantineOf(claimedJob("a"), claimedJob("b"));
  await investigate();
  quarantine.otherWorkFound(Number.MAX_SAFE_INTEGER / 2);
  quarantine.seen();
  expect(await investigate()).toBe(false);
  quarantine.hint();
  await investigate();

  expect(story.filter((each) => each.startsWith("run"))).toEqual(["run a beside 0", "run b beside 0"]);
});

test("a busy worker makes room before it claims the job, and then runs it alone", async () => {
  const { quarantine, worker, story, investigate, wake } = quarantineOf(claimedJob("a"));
  worker.busy = 2;
  const investigating = investigate();
  await vi.waitUntil(() => quarantine.isMakingRoom, { interval: 1 });
  expect([quarantine.isInvestigating, story]).toEqual([true, ["reserve"]]);
  worker.busy = 0;
  wake();
  expect(await investigating).toBe(true);

  expect(story).toEqual(["reserve", "claim", "run a beside 0"]);
  expect([quarantine.isInvestigating, quarantine.isMakingRoom]).toEqual([false, false]);
});

test.each([
  ["no job has waited for long", { waits: false }, ["reserve"]],
  ["a handler ignores its signal", { stuck: true }, []],
  ["nothing may be claimed", { isEmpty: true }, []],
])("a busy worker makes no room while %s", async (_, state, statements) => {
  const { quarantine, worker, story, investigate } = quarantineOf(claimedJob("a"));
  Object.assign(worker, { busy: 1, ...state });

  expect([await investigate(), story]).toEqual([false, statements]);
  expect(quarantine.isInvestigating).toBe(false);
});

test("crash suspects among the waiting jobs are released, and claims wait for that", async () => {
  const { quarantine, worker, story } = quarantineOf();
  worker.suspects = [claimedJob("fine"), claimedJob("suspect", { crashes: 1 })];
  quarantine.releaseSuspects();
  expect([quarantine.isReleasing, story]).toEqual([true, ["release suspect"]]);

  await vi.waitUntil(() => !quarantine.isReleasing, { interval: 1 });
  expect(story).toEqual(["release suspect", "room in main"]);
});
