import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { formatMs } from "./figures.ts";

/** A duration such as `"500ms"`, `"30s"` or `"1h30m"`, or a number of milliseconds. */
export type Duration = string | number;

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["(?:min|m)", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/** A hundred years. A longer duration may give an invalid date. */
export const longestMs = 36_500 * 86_400_000;

/**
 * Each unit at most once, larger units first, so that "30m1h" and "5m5m" are refused as mistakes. Printed durations ("2 min 4 s")
 * can be copied back.
 */
const pattern = new RegExp(
  `^${units.map(([unit]) => `(?:(\\d{1,15}(?:\\.\\d{1,9})?) ?${unit})?`).join(" ?")}$`,
);

/**
 * Read a duration as whole milliseconds.
 *
 * @throws {InvalidOptionError} The value is not a duration, or is outside `limits`.
 */
export function toMs(value: Duration, option: string, limits: { min?: number; max?: number } = {}): number {
  const ms = typeof value === "number" ? value : parse(value);
  if (ms === undefined || !Number.isFinite(ms) || ms < 0) {
    throw new InvalidOptionError(
      option,
      `must be a duration such as "500ms", "30s", "5m", "2h", "1d" or "1h30m", ` +
        `or a number of milliseconds from 0, got ${describe(value)}${unitHint(value)}`,
    );
  }

  const { min = 0, max = longestMs } = limits;
  const rounded = Math.round(ms);
  if (rounded < min) {
    throw new InvalidOptionError(option, `must be at least ${formatMs(min)}, got ${describe(value)}`);
  }
  if (rounded > max) {
    throw new InvalidOptionError(option, `must be at most ${formatMs(max)}, got ${describe(value)}`);
  }
  return rounded;
}

/** A string of digits, as on a command line, has no unit. */
function unitHint(value: unknown): string {
  return typeof value === "string" && /^\d{1,9}$/.test(value) ? `; did you mean "${value}s"?` : "";
}

function parse(value: unknown): number | undefined {
  if (typeof value !== "string" || value.length > 64) return undefined;
  const text = value.trim();
  const match = pattern.exec(text);
  if (match === null || text === "") return undefined;
  return units.reduce((sum, [, size], index) => sum + Number(match[index + 1] ?? 0) * size, 0);
}
