import { Cron } from "croner";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";

/** A cron pattern, without a zone. */
export type CronPattern = {
  /** As it was given, with single spaces. */
  readonly text: string;
  /** Whether its seconds, minutes and hours are all given as numbers: it means times of the day, not an interval. */
  readonly isFixed: boolean;
  /** The first matching local time after this one, in milliseconds; null if there is none any more. */
  readonly after: (local: number) => number | null;
};

const longestPattern = 256;
const nicknames: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const allowed = /^[0-9A-Za-z*,/#+ -]+$/;

/** Patterns are read again and again, and reading one takes as long as several searches. */
const known = new Map<string, CronPattern>();
const mostKnown = 1_000;

/**
 * Read a cron pattern: `minute hour day month weekday`, optionally with seconds before them. Lists, ranges, steps, names of months and
 * weekdays, `L`, `W` and `#` work; so do `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly`.
 *
 * @throws {InvalidOptionError} This is not a pattern, or it never matches.
 */
export function readCron(pattern: unknown, option: string): CronPattern {
  const found = typeof pattern === "string" ? known.get(pattern) : undefined;
  if (found !== undefined) return found;
  const read = parse(pattern, option);
  if (known.size >= mostKnown) known.clear();
  known.set(pattern as string, read);
  return read;
}

function parse(pattern: unknown, option: string): CronPattern {
  const refuse = (rule: string): InvalidOptionError =>
    new InvalidOptionError(option, `${rule}, got ${describe(pattern)}`);
  if (typeof pattern !== "string") throw refuse('must be a cron pattern such as "0 3 * * *"');
  if (pattern.length > longestPattern) throw refuse(`must be at most ${longestPattern} characters`);
  const text = pattern.trim().replaceAll(/\s+/g, " ");
  const fields = (nicknames[text.toLowerCase()] ?? text).split(" ");
  if (fields.length !== 5 && fields.length !== 6)
    throw refuse("must have five fields (minute hour day month weekday), or six with seconds first");
  if (!allowed.test(fields.join(" "))) throw refuse("must consist of numbers, names and * , / - # L W");
  const [seconds, minutes, hours] = fields.length === 6 ? fields : ["0", ...fields];
  const cron = compile(fields.join(" "), refuse);
  const after = (local: number): number | null => cron.nextRun(new Date(local))?.getTime() ?? null;
  if (after(Date.UTC(2024, 0, 1)) === null) throw refuse("must match some day; this one never does");
  const isFixed = [seconds, minutes, hours].every((field) => field?.startsWith("*") === false);
  return { text, isFixed, after };
}

/** With a fixed offset, which needs no zone: four times as fast as "UTC". */
function compile(text: string, refuse: (rule: string) => InvalidOptionError): Cron {
  try {
    return new Cron(text, { utcOffset: 0, mode: "5-or-6-parts", paused: true });
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error);
    throw refuse(`must be a cron pattern (${reason.slice(0, 200)})`);
  }
}
