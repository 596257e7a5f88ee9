import { expect, test } from "vitest";
import type { AttemptOutcome, ClaimedJob } from "../model/job.ts";
import { Meter, type KindMeter } from "../telemetry/meter.ts";
import { Metering } from "./metering.ts";

const job = (more: Partial<ClaimedJob> = {}): ClaimedJob =>
  ({
    kind: "mail",
    queue: "a",
    attempt: 1,
    tenant: null,
    runAt: "2026-01-01 00:00:00+00",
    ...more,
  }) as ClaimedJob;

test.each<[AttemptOutcome, string, Partial<KindMeter>]>([
  ["succeeded", "succeeded", { succeeded: 1, attemptsOfSucceeded: 3 }],
  ["failed", "retrying", { failed: 1, retried: 1 }],
  ["failed", "ready", { failed: 1, retried: 1 }],
  ["failed", "dead", { failed: 1, dead: 1 }],
  ["failed", "cancelled", { failed: 1, cancelled: 1 }],
  ["timed-out", "retrying", { timedOut: 1, retried: 1 }],
  ["timed-out", "dead", { timedOut: 1, dead: 1 }],
  ["snoozed", "scheduled", { snoozed: 1 }],
  ["parked", "parked", { parked: 1 }],
  ["cancelled", "cancelled", { cancelled: 1 }],
  ["released", "ready", { released: 1 }],
])("an attempt that %s, of a job that is then %s", (outcome, state, expected) => {
  const meter = new Meter();
  new Metering(meter).recorded(job({ attempt: 3 }), outcome, state);
  const counted = Object.entries(meter.of("a", "mail")).filter(
    ([, count]) => typeof count === "number" && count > 0,
  );

  expect(Object.fromEntries(counted)).toEqual(expected);
});

test("the wait ends at the claim, by the estimate of the database's clock", () => {
  const meter = new Meter();
  const metering = new Metering(meter);
  metering.clock.sync("2026-01-01 00:00:04.000001+00");
  metering.claimed([
    job(),
    job({ runAt: "2026-01-01 01:00:03.5+01" }),
    job({ runAt: "2027-01-01 00:00:00+00" }),
  ]);
  const { claimed, wait } = meter.of("a", "mail");

  expect(claimed).toBe(3);
  expect(wait.sumMs).toBeGreaterThanOrEqual(4_500);
  // A time zone that was ignored would add an hour.
  expect(wait.sumMs).toBeLessThan(60_000);
});

test("queues of a kind count separately, and only jobs with a tenant count for one", () => {
  const meter = new Meter();
  const metering = new Metering(meter);
  metering.over(job(), 5);
  metering.over(job({ queue: "b", tenant: "t" }), 7);
  metering.over(job(), 5);

  expect(meter.kinds().map(({ queue, run }) => [queue, run.sumMs])).toEqual([
    ["a", 10],
    ["b", 7],
  ]);
  expect(meter.tenants.take(5)).toEqual([["t", { ended: 1, runMs: 7 }]]);
});

test("rescued jobs count for their kind, and for their state if they ended", () => {
  const meter = new Meter();
  const rescued = {
    job: "1",
    kind: "other",
    queue: "c",
    worker: "w",
    key: null,
    tenant: null,
    tags: [],
    attempt: 1,
    crashes: 1,
  };
  new Metering(meter).rescued([
    { ...rescued, state: "ready" },
    { ...rescued, state: "dead" },
  ]);

  expect(meter.of("c", "other")).toMatchObject({ rescued: 2, dead: 1, cancelled: 0 });
});
