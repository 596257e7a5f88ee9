/** A job's attempts as lanes on a time axis. */
import { describe, expect, test } from "vitest";
import { axisOf, lanesOf, ticksOf, type Lane } from "../../ui/screens/job/lanes.ts";
import { fakeJob } from "../support/fake.ts";

const at = (ms: number) => new Date(ms).toISOString();
type Result = Parameters<typeof lanesOf>[0];

function response(job: object, audit: Result["audit"] = []): Result {
  return { job: { ...JSON.parse(JSON.stringify(fakeJob())), ...job } as Result["job"], audit };
}

const ended = (epoch: number, from: number, to: number) => ({
  epoch,
  worker: "w",
  startedAt: at(from),
  endedAt: at(to),
  outcome: "failed",
});

describe("lanes", () => {
  test("each attempt waits since the one before, the first since it was enqueued", () => {
    const lanes = lanesOf(
      response({ state: "dead", createdAt: at(0), log: [ended(1, 10, 30), ended(2, 50, 60)] }),
    );
    expect(lanes.map(({ waitFrom, start, end }) => [waitFrom, start, end])).toEqual([
      [0, 10, 30],
      [30, 50, 60],
    ]);
  });

  test("a dead job does not wait: its wait starts at the replay", () => {
    const replay = { at: at(900), actor: "ada", action: "replay", reason: "fixed" };
    const log = [ended(1, 10, 30)];
    expect(lanesOf(response({ state: "ready", finishedAt: null, log }, [replay])).at(-1)).toMatchObject({
      waitFrom: 900,
      start: null,
      outcome: "waiting",
    });
    const later = lanesOf(response({ state: "dead", log: [...log, ended(2, 950, 960)] }, [replay]));
    expect(later[1]).toMatchObject({ waitFrom: 900, start: 950 });
  });

  test("a running job has an open lane, and dropped attempts are counted", () => {
    const lanes = lanesOf(
      response({
        state: "running",
        finishedAt: null,
        epoch: 31,
        claimedAt: at(100),
        log: [ended(1, 1, 2), ended(30, 80, 90)],
      }),
    );
    expect(lanes.map(({ missing }) => missing)).toEqual([0, 28, 0]);
    expect(lanes[2]).toMatchObject({ epoch: 31, start: 100, end: null, outcome: "running" });
  });
});

describe("attempt numbers", () => {
  test("attempt numbers are those that handlers saw, not epochs", () => {
    const crashed = { ...ended(1, 10, 30), outcome: "crashed" };
    const lanes = lanesOf({
      ...response({
        state: "running",
        finishedAt: null,
        epoch: 3,
        attempts: 1,
        claimedAt: at(50),
        log: [crashed],
      }),
      attemptOfEpoch: { 1: 1 },
    });
    expect(lanes.map(({ epoch, attempt }) => [epoch, attempt])).toEqual([
      [1, 1],
      [3, 1],
    ]);
  });
});

describe("axis", () => {
  const lane = (waitFrom: number, start: number, end: number): Lane => ({
    epoch: 1,
    attempt: 1,
    waitFrom,
    start,
    end,
    outcome: "failed",
    worker: null,
    missing: 0,
  });

  test("is to scale while the attempts can be seen", () => {
    const axis = axisOf([lane(0, 10, 20), lane(20, 30, 40)], 40);
    expect(axis.cuts).toEqual([]);
    expect([0, 10, 20, 40].map((moment) => axis.share(moment))).toEqual([0, 0.25, 0.5, 1]);
  });

  test("a wait of days is cut, and the order of waits by length is kept", () => {
    const day = 86_400_000;
    const axis = axisOf([lane(0, 100, 200), lane(200, 1_200, 1_300), lane(1_300, day, day + 200)], day + 200);
    expect(axis.cuts).toEqual([
      { from: 200, to: 1_200 },
      { from: 1_300, to: day },
    ]);
    const shares = [0, 100, 200, 700, 1_200, 1_300, day / 2, day, day + 200].map((moment) =>
      axis.share(moment),
    );
    expect(shares).toEqual(shares.toSorted((one, other) => one - other));
    expect([shares[0], shares.at(-1)]).toEqual([0, 1]);
    const length = (from: number, to: number) => axis.share(to) - axis.share(from);
    expect(length(1_300, day)).toBeGreaterThanOrEqual(length(200, 1_200) - 1e-9);
    // The attempts themselves are visible.
    expect(length(day, day + 200)).toBeGreaterThan(0.05);
  });

  test("has no more marks than there is room for", () => {
    for (const length of [3, 950, 61_000, 86_400_000, 9e9]) {
      expect(ticksOf(length, 8).length).toBeLessThanOrEqual(8);
      expect(ticksOf(length, 8).length).toBeGreaterThanOrEqual(1);
    }
  });
});
