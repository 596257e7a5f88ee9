import { InvalidOptionError } from "../errors.ts";
import { requireInteger } from "./options.ts";

/** Bounds of an autoscaler, and how careful it is. */
export type AutoscaleBounds = {
  readonly min: number;
  readonly max: number;
  /** Fewer processes must have been enough for this long before any is stopped. */
  readonly coolDownMs: number;
};

/** The most processes of one supervisor. */
export const mostProcesses = 256;

/**
 * Check the bounds of an autoscaler. `max` is at least `min` unless it is given.
 *
 * @throws {InvalidOptionError} A value cannot work.
 */
export function resolveProcessBounds(
  given: { readonly min: number; readonly max: number | undefined },
  defaultMax: number,
): { min: number; max: number } {
  // Only a worker makes scheduled jobs ready and rescues the jobs of a dead worker, so one always runs.
  const min = requireInteger("--min", given.min, { min: 1, max: mostProcesses });
  if (given.max === undefined) return { min, max: Math.min(mostProcesses, Math.max(min, defaultMax)) };
  const max = requireInteger("--max", given.max, { min: 1, max: mostProcesses });
  if (max < min) throw new InvalidOptionError("--max", `must be at least --min (${min}), got ${max}`);
  return { min, max };
}

export type ScalingDecision = {
  readonly processes: number;
  /** Why the number is not the one that is wanted. */
  readonly heldBy: "min" | "max" | "step" | "cool-down" | null;
};

/** One decision starts at most as many processes as run, or this many. A wrong estimate must not load the machine at once. */
const leastStep = 4;

/**
 * Decides how many processes run. More are started at once. Processes are stopped only after fewer were enough for the whole cool-down, and then
 * down to the most that were wanted in that time. A load that comes and goes within the cool-down changes nothing.
 */
export class ScalingDecisions {
  readonly #bounds: AutoscaleBounds;
  readonly #longestGapMs: number;
  /** Since when fewer processes are enough, and the most that were wanted since. */
  #fewer: { readonly since: number; most: number } | undefined;
  #lastAt = -Infinity;

  /** `longestGapMs`: after a longer time without a reading, the demand in between counts as unknown, and the cool-down starts again. */
  constructor(bounds: AutoscaleBounds, longestGapMs: number) {
    this.#bounds = bounds;
    this.#longestGapMs = longestGapMs;
  }

  /** `wanted`: processes by the recommendation. `at`: monotonic ms. */
  next(present: number, wanted: number, at: number): ScalingDecision {
    const { min, max, coolDownMs } = this.#bounds;
    if (at - this.#lastAt > this.#longestGapMs) this.#fewer = undefined;
    this.#lastAt = at;
    const bounded = Math.min(max, Math.max(min, wanted));
    const heldBy = bounded === wanted ? null : wanted > max ? "max" : "min";
    if (bounded >= present) {
      this.#fewer = undefined;
      const processes = Math.min(bounded, present + Math.max(present, leastStep));
      return { processes, heldBy: processes < bounded ? "step" : heldBy };
    }
    this.#fewer ??= { since: at, most: bounded };
    this.#fewer.most = Math.max(this.#fewer.most, bounded);
    if (at - this.#fewer.since < coolDownMs) return { processes: present, heldBy: "cool-down" };
    const processes = this.#fewer.most;
    this.#fewer = undefined;
    return { processes, heldBy: processes > bounded ? "cool-down" : heldBy };
  }

  /** The demand is not known: the cool-down starts again. */
  unknown(): void {
    this.#fewer = undefined;
  }
}
