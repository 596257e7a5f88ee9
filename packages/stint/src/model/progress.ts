import { InvalidOptionError } from "../errors.ts";
import { clip } from "../runtime/text.ts";
import { describe } from "./describe.ts";

/** The latest lines are kept with the job. */
export const mostLogLines = 100;
const longestLine = 1_000;

/** `loggedAt`: by the monotonic clock of the process, in milliseconds. */
export type LogLine = { readonly text: string; readonly loggedAt: number };

/** A short text for people, without control characters. */
export function toReportText(text: unknown, option: string): string {
  if (typeof text !== "string")
    throw new InvalidOptionError(option, `must be a string, got ${describe(text)}`);
  return clip(text, longestLine).replaceAll(/\p{Cc}+/gu, " ");
}

export function checkFraction(value: unknown): number {
  if (typeof value === "number" && value >= 0 && value <= 1) return value;
  throw new InvalidOptionError("progress(fraction)", `must be a number from 0 to 1, got ${describe(value)}`);
}
