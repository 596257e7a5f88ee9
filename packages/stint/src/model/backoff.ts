import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { toMs, type Duration } from "./duration.ts";
import type { Failure } from "./failure.ts";
import { refuseUnknownKeys, requireOneOf } from "./options.ts";

/** Delays that grow by `factor` from `base` up to `cap`. */
export type Exponential = { base: Duration; factor: number; cap: Duration; jitter: "full" | "none" };

/** One delay after each failure in turn; the last one repeats. */
export type Steps = { steps: readonly Duration[] };

/** The delay before the next attempt of a failed job. `attempt` is 1 after the first failure. */
export type Backoff = Exponential | Steps | ((attempt: number, error: Failure) => Duration);

/** A backoff with checked and parsed durations. */
export type ResolvedBackoff =
  | { type: "exponential"; baseMs: number; factor: number; capMs: number; jitter: "full" | "none" }
  | { type: "steps"; stepsMs: readonly number[] }
  | { type: "function"; delay: (attempt: number, error: Failure) => Duration };

const defaults: Exponential = { base: "10s", factor: 2, cap: "5m", jitter: "full" };

/** The default backoff: 10 s, doubling, at most 5 min, with full jitter. */
export const defaultBackoff = resolveExponential(defaults, "backoff");

/** Delays that grow with each failure. Options that are left out are as in the default backoff. */
export function exponential(input: Partial<Exponential> = {}): Exponential {
  return { ...defaults, ...input };
}

/** Fixed delays, one for each failure in turn; the last one repeats. */
export function steps(first: Duration, ...rest: Duration[]): Steps {
  return { steps: [first, ...rest] };
}

/**
 * Check a backoff and parse its durations once, so that no attempt can fail because of a mistake in them.
 *
 * @throws {InvalidOptionError} The backoff is not valid.
 */
export function resolveBackoff(input: Backoff | undefined, option: string): ResolvedBackoff {
  if (input === undefined) return defaultBackoff;
  if (typeof input === "function") return { type: "function", delay: input };
  const given: unknown = input;
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new InvalidOptionError(
      option,
      `must be made by exponential(…) or steps(…), or be a function, got ${describe(given)}`,
    );
  }
  return "steps" in input ? resolveSteps(input, option) : resolveExponential(input, option);
}

function resolveSteps(input: Steps, option: string): ResolvedBackoff {
  refuseUnknownKeys(option, input, ["steps"]);
  if (!Array.isArray(input.steps) || input.steps.length === 0) {
    throw new InvalidOptionError(
      `${option}.steps`,
      `must be a list of durations, got ${describe(input.steps)}`,
    );
  }
  const stepsMs = input.steps.map((step: Duration, index) => toMs(step, `${option}.steps[${index}]`));
  return { type: "steps", stepsMs };
}

function resolveExponential(input: Exponential, option: string): ResolvedBackoff & { type: "exponential" } {
  refuseUnknownKeys(option, input, ["base", "factor", "cap", "jitter"]);
  const { base, factor, cap, jitter } = { ...defaults, ...withoutUndefined(input) };
  if (typeof factor !== "number" || !Number.isFinite(factor) || factor < 1) {
    throw new InvalidOptionError(
      `${option}.factor`,
      `must be a number of at least 1, got ${describe(factor)}`,
    );
  }
  const baseMs = toMs(base, `${option}.base`);
  const capMs = toMs(cap, `${option}.cap`);
  if (capMs < baseMs) {
    throw new InvalidOptionError(
      `${option}.cap`,
      `must be at least base (${describe(base)}), got ${describe(cap)}`,
    );
  }
  return {
    type: "exponential",
    baseMs,
    factor,
    capMs,
    jitter: requireOneOf(`${option}.jitter`, jitter, ["full", "none"]),
  };
}

function withoutUndefined(input: Exponential): Partial<Exponential> {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}

/**
 * The delay before the next attempt, in whole milliseconds.
 *
 * Never throws: this runs while a failure is recorded. If a function of the user throws or returns an invalid value, the
 * default backoff applies.
 */
export function nextDelayMs(
  backoff: ResolvedBackoff,
  attempt: number,
  error: Failure,
  random: () => number,
): number {
  const failures = attempt >= 1 ? Math.floor(attempt) : 1;
  if (backoff.type === "exponential") return exponentialMs(backoff, failures, random);
  if (backoff.type === "steps") {
    return backoff.stepsMs[Math.min(failures, backoff.stepsMs.length) - 1] ?? 0;
  }
  try {
    // A copy: the function must not change the recorded failure.
    return toMs(backoff.delay(failures, structuredClone(error)), "backoff");
  } catch {
    return exponentialMs(defaultBackoff, failures, random);
  }
}

function exponentialMs(
  { baseMs, factor, capMs, jitter }: ResolvedBackoff & { type: "exponential" },
  failures: number,
  random: () => number,
): number {
  // factor ** 1e6 is Infinity, which the cap limits; but 0 * Infinity would be NaN.
  const ceiling = baseMs === 0 ? 0 : Math.min(capMs, baseMs * factor ** (failures - 1));
  return Math.round(jitter === "none" ? ceiling : ceiling * random());
}
