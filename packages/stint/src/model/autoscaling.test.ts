import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { resolveProcessBounds, ScalingDecisions } from "./autoscaling.ts";

const bounds = { min: 1, max: 20, coolDownMs: 1_000 };

test("more processes start at once, at most twice as many or four more", () => {
  const decisions = new ScalingDecisions(bounds, 500);
  expect(decisions.next(1, 3, 0)).toEqual({ processes: 3, heldBy: null });
  expect(decisions.next(3, 19, 100)).toEqual({ processes: 7, heldBy: "step" });
  expect(decisions.next(7, 19, 200)).toEqual({ processes: 14, heldBy: "step" });
  expect(decisions.next(14, 25, 300)).toEqual({ processes: 20, heldBy: "max" });
});

test("processes stop after the cool-down, down to the most that were wanted in it", () => {
  const decisions = new ScalingDecisions(bounds, 500);
  const wanted = [[0, 2], [400, 4], [800, 1]] as const; // prettier-ignore
  for (const [at, count] of wanted)
    expect(decisions.next(6, count, at)).toEqual({ processes: 6, heldBy: "cool-down" });
  expect(decisions.next(6, 0, 1_000)).toEqual({ processes: 4, heldBy: "cool-down" });
  // The next cool-down starts after that.
  for (const at of [1_400, 1_800, 2_200]) expect(decisions.next(4, 0, at).processes).toBe(4);
  expect(decisions.next(4, 0, 2_400)).toEqual({ processes: 1, heldBy: "min" });
});

test("a load that comes back within the cool-down stops nothing", () => {
  const decisions = new ScalingDecisions(bounds, 500);
  for (let at = 0; at < 20_000; at += 400)
    expect(decisions.next(4, at % 800 === 0 ? 1 : 4, at).processes).toBe(4);
});

test("a gap in the readings starts the cool-down again", () => {
  const decisions = new ScalingDecisions(bounds, 500);
  decisions.next(4, 1, 0);
  // The machine slept for an hour.
  expect(decisions.next(4, 1, 3_600_000).processes).toBe(4);
  decisions.unknown();
  expect(decisions.next(4, 1, 3_600_400).processes).toBe(4);
  expect(decisions.next(4, 1, 3_600_900).processes).toBe(4);
  expect(decisions.next(4, 1, 3_601_400).processes).toBe(1);
});

test("more processes than the maximum drain after the cool-down", () => {
  const decisions = new ScalingDecisions({ ...bounds, max: 3 }, 500);
  expect(decisions.next(3, 9, 0)).toEqual({ processes: 3, heldBy: "max" });
});

test("bounds that cannot work are refused, and the default maximum follows the minimum", () => {
  expect(resolveProcessBounds({ min: 6, max: undefined }, 2)).toEqual({ min: 6, max: 6 });
  expect(resolveProcessBounds({ min: 1, max: undefined }, 1_000)).toEqual({ min: 1, max: 256 });
  const max: undefined = undefined;
  for (const given of [
    { min: 0, max },
    { min: 2, max: 1 },
    { min: Number.NaN, max },
    { min: 1, max: Number.NaN },
    { min: 1.5, max },
    { min: 1, max: 0 },
    { min: 1, max: 10_000 },
    { min: 257, max },
    { min: -1, max },
    { min: 1, max: Infinity },
  ])
    expect(() => resolveProcessBounds(given, 4)).toThrow(InvalidOptionError);
});
