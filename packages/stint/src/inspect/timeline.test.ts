import { expect, test } from "vitest";
import { aJob } from "../../test/support/a-job.ts";
import type { Job } from "../model/job.ts";
import { timeline } from "./timeline.ts";

const at = (s: number): Date => new Date(Date.UTC(2026, 2, 1) + s * 1_000);
const job = aJob(at(0));
const steps = (
  own: Partial<Job>,
  audit: Parameters<typeof timeline>[1] = [],
  leaseId: string | null = null,
) => timeline({ job: { ...job, ...own }, leaseId, leases: new Map([[1, "l1"]]) }, audit);

test.each([
  [{ state: "scheduled", runAt: at(60) }, "due", "Due"],
  [{ state: "retrying", runAt: at(60) }, "due", "Due for its next attempt"],
  [{ state: "ready" }, "waiting", "Ready, waiting to be claimed"],
  [{ state: "parked", parkReason: "quarantine" }, "waiting", "Parked: quarantine"],
  [{ state: "running", claimedAt: at(5), worker: "w" }, "claimed", "Claimed by w, runs"],
  [{ state: "succeeded", finishedAt: at(5) }, "ended", "Succeeded"],
  [{ state: "dead", finishedAt: at(5), reason: "boom" }, "ended", "Dead"],
  [{ state: "cancelled", finishedAt: at(5) }, "ended", "Cancelled"],
] as [Partial<Job>, string, string][])("the last step of %o", (own, what, title) => {
  const life = steps(own);
  expect(life[0]).toMatchObject({ what: "enqueued", title: "Enqueued to mail" });
  expect(life.at(-1)).toMatchObject({ what, title });
});

test("attempts are listed with worker, lease, duration and error, operations in order", () => {
  const life = steps(
    {
      state: "running",
      claimedAt: at(40),
      worker: "w2",
      epoch: 3,
      log: [
        {
          epoch: 1,
          worker: "w1",
          startedAt: at(10),
          endedAt: at(12),
          outcome: "failed",
          error: { class: "Error", message: "boom" },
        },
        { epoch: 2, worker: "w1", startedAt: null, endedAt: at(20), outcome: "crashed" },
      ],
    },
    [
      { at: at(30), actor: "ann", action: "run-now", reason: null },
      { at: at(50), actor: "bob", action: "cancel", reason: "enough" },
      { at: at(51), actor: "bob", action: "something new", reason: null },
    ],
    "l3",
  );

  expect(life.map((one) => [one.what, one.epoch, one.worker, one.durationMs, one.detail])).toEqual([
    ["enqueued", null, null, null, null],
    ["claimed", 1, "w1", null, "lease l1"],
    ["attempt-ended", 1, "w1", 2_000, "Error: boom"],
    ["attempt-ended", 2, "w1", null, null],
    ["run-now", null, null, null, null],
    ["claimed", 3, "w2", null, "lease l3"],
    ["cancelled", null, null, null, "enough"],
  ]);
});

test("a replay comes before the claim of the same millisecond", () => {
  const log: Job["log"] = [
    { epoch: 1, worker: "w", startedAt: at(10), endedAt: at(10), outcome: "succeeded" },
  ];
  const audit = [{ at: at(10), actor: "ann", action: "replay", reason: null }];

  const life = steps({ state: "succeeded", finishedAt: at(10), log }, audit);

  expect(life.map(({ what }) => what)).toEqual(["enqueued", "replayed", "claimed", "attempt-ended", "ended"]);
});

test("a job that became due later shows the delay", () => {
  expect(steps({ runAt: at(90) }).at(-1)?.detail).toBe("1 min 30 s after it was enqueued");
});
