import { expect, test } from "vitest";
import { Pace } from "./pace.ts";

/** Ends so many handlers, each of this length, between two claims `ms` apart. */
function run(
  pace: Pace,
  count: number,
  { took = 0.01, from = 0, ms = 100, weight = 4, roundTrip = 1 } = {},
): void {
  pace.measure(from, 0, roundTrip);
  for (let n = 0; n < count; n++) pace.ended(took);
  pace.measure(from + ms, weight, roundTrip);
}

test("a pool that has ended nothing claims nothing ahead", () => {
  const pace = new Pace(10);
  expect(pace.ahead).toBe(0);
  pace.measure(0, 4, 1);
  pace.measure(1_000, 4, 1);
  expect(pace.ahead).toBe(0);
});

test("it claims ahead what it ends in fifty milliseconds", () => {
  const pace = new Pace(10);
  run(pace, 100);

  expect(pace.ahead).toBe(50);
});

test("while answers take long it claims ahead what it ends in four round trips, up to a quarter of a second", () => {
  const pace = new Pace(10);
  run(pace, 100, { roundTrip: 30 });
  expect(pace.ahead).toBe(120);
  run(pace, 100, { from: 200, roundTrip: 5_000 });
  expect(pace.ahead).toBe(250);
});

test("once answers come quickly again, it claims ahead less by half at every claim", () => {
  const pace = new Pace(10);
  run(pace, 100, { roundTrip: 50 });
  run(pace, 50, { from: 100, ms: 50 });
  expect(pace.ahead).toBe(50);
});

test("a pool whose slots wait for claims is given more, not less", () => {
  const pace = new Pace(10);
  let claimed = 20;
  for (let n = 0; n < 12; n++) {
    // Each claim takes forty milliseconds and is used up before the next is answered.
    run(pace, claimed, { from: n * 80, ms: 40, roundTrip: 40 });
    claimed = Math.max(1, Math.floor(pace.ahead / 2));
  }
  expect(claimed).toBe(1_000);
});

test("a pool of long jobs claims none ahead, however close together they end", () => {
  const pace = new Pace(10);
  run(pace, 9, { took: 1_000, ms: 2 });

  expect(pace.ahead).toBe(0);
});

test("jobs of a few milliseconds are claimed ahead as far as the slots get through them in that time", () => {
  const pace = new Pace(4);
  run(pace, 1_000, { took: 10, ms: 1 });

  expect(pace.ahead).toBe(20);
});

test("one long job is believed at once, and quick ones little by little", () => {
  const pace = new Pace(10);
  run(pace, 1_000);
  pace.ended(80);
  expect(pace.ahead).toBe(0);
  for (let n = 0; n < 5; n++) pace.ended(0.01);
  expect(pace.ahead).toBe(0);
  for (let n = 0; n < 100; n++) pace.ended(0.01);
  expect(pace.ahead).toBeGreaterThan(100);
});

test("it is quicker at once, and slower by half at every claim", () => {
  const pace = new Pace(10);
  run(pace, 100);
  run(pace, 1_600, { from: 200 });
  expect(pace.ahead).toBe(800);
  pace.measure(400, 4, 1);
  expect(pace.ahead).toBe(400);
  pace.measure(500, 4, 1);
  expect(pace.ahead).toBe(200);
});

test("it never claims more than two thousand ahead", () => {
  const pace = new Pace(100);
  run(pace, 100_000);

  expect(pace.ahead).toBe(2_000);
});

test("heavy payloads are claimed ahead up to four megabytes, and are remembered for some claims", () => {
  const pace = new Pace(100);
  run(pace, 100_000, { weight: 1_048_576 });
  expect(pace.ahead).toBe(4);
  run(pace, 100_000, { from: 200 });
  expect(pace.ahead).toBeLessThanOrEqual(32);
  run(pace, 100_000, { from: 400, weight: 16_777_216 });
  expect(pace.ahead).toBe(0);
});

test("after a reset it claims nothing ahead until it has been measured anew", () => {
  const pace = new Pace(10);
  run(pace, 1_000);
  pace.ended(0.01);
  pace.reset();
  expect(pace.ahead).toBe(0);
  pace.measure(200, 4, 1);
  expect(pace.ahead).toBe(0);
  run(pace, 100, { from: 300 });
  expect(pace.ahead).toBe(50);
});

test("two claims in the same moment do not make it infinitely quick", () => {
  const pace = new Pace(1);
  pace.measure(5, 4, 1);
  pace.ended(0);
  pace.measure(5, 4, 1);

  expect(pace.ahead).toBeLessThanOrEqual(1_000);
});
