import { types } from "node:util";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { foreignWords } from "./other-libraries.ts";
import { closest } from "./names.ts";

/**
 * Refuse unknown options: a misspelt `atempts` would otherwise silently mean the default.
 *
 * @throws {InvalidOptionError} `input` is not an object, or has a key outside `allowed`.
 */
export function refuseUnknownKeys(what: string, input: object, allowed: readonly string[]): void {
  const given: unknown = input;
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new InvalidOptionError(what, `must be an object of options, got ${describe(given)}`);
  }
  for (const key of Object.keys(given)) {
    if (allowed.includes(key)) continue;
    const shown = /^[\w-]{1,64}$/.test(key) ? `${what}.${key}` : `${what}[${describe(key)}]`;
    // The same word may have different meanings in different options.
    const known =
      foreignWords.get(`${what.slice(what.lastIndexOf(".") + 1)}.${key}`) ?? foreignWords.get(key);
    if (known !== undefined)
      throw new InvalidOptionError(shown, `is not an option. Stint calls this ${known}`);
    const suggestion = closest(key, allowed);
    throw new InvalidOptionError(
      shown,
      suggestion === undefined
        ? `is not an option. ${what} has ${allowed.length === 0 ? "no options" : allowed.join(", ")}`
        : `is not an option; did you mean "${suggestion}"?`,
    );
  }
}

/** A safe integer within the limits. */
export function requireInteger(
  option: string,
  value: unknown,
  { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }: { min?: number; max?: number } = {},
): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new InvalidOptionError(option, `must be an integer${range(min, max)}, got ${describe(value)}`);
}

/** One of the allowed words. */
export function requireOneOf<const T extends string>(
  option: string,
  value: unknown,
  allowed: readonly T[],
): T {
  const found = allowed.find((word) => word === value);
  if (found !== undefined) return found;
  const suggestion = typeof value === "string" ? closest(value, allowed) : undefined;
  throw new InvalidOptionError(
    option,
    `must be ${allowed.map((word) => `"${word}"`).join(" or ")}, got ${describe(value)}` +
      (suggestion === undefined ? "" : `; did you mean "${suggestion}"?`),
  );
}

export function requireBoolean(option: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new InvalidOptionError(option, `must be true or false, got ${describe(value)}`);
}

export function requireFunction<T>(option: string, value: T): T & ((...args: never[]) => unknown) {
  if (typeof value === "function") return value as T & ((...args: never[]) => unknown);
  throw new InvalidOptionError(option, `must be a function, got ${describe(value)}`);
}

/** A valid Date; `new Date("tomorrow")` is a Date, too, but invalid. */
export function requireDate(option: string, value: unknown): Date {
  if (types.isDate(value) && !Number.isNaN(value.getTime())) return value;
  throw new InvalidOptionError(option, `must be a valid Date, got ${describe(value)}`);
}

function range(min: number, max: number): string {
  const hasMin = min > Number.MIN_SAFE_INTEGER;
  const hasMax = max < Number.MAX_SAFE_INTEGER;
  if (hasMin && hasMax) return ` from ${min} to ${max}`;
  if (hasMin) return ` of at least ${min}`;
  return hasMax ? ` of at most ${max}` : "";
}
