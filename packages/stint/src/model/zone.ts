import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { closest } from "./names.ts";

/**
 * A time zone, as its difference from UTC. Local times are written as if they were UTC: milliseconds since 1970-01-01 00:00 on the clock
 * of the zone.
 */
export type Zone = {
  readonly name: string;
  /** Local time minus UTC at this moment, in milliseconds. */
  readonly offsetAt: (at: number) => number;
};

const dayMs = 86_400_000;
// The SQL functions take the same names. An offset such as "+02:00" is refused: Postgres reads its sign the other way round, and it has no clock changes.
// So is an abbreviation such as "CET": to Postgres it is an offset, to JavaScript a zone.
const zoneName = /^(?:UTC|[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){1,2})$/;
const longestName = 64;

const known = new Map<string, Zone>();
/** Each zone keeps a formatter. Names come from tables of users, so that a process may meet all of them, in any spelling. */
const mostKnown = 1_000;

/**
 * A zone by its IANA name, such as "Europe/Berlin" or "UTC".
 *
 * @throws {InvalidOptionError} There is no such zone.
 */
export function findZone(name: unknown, option: string): Zone {
  const found = typeof name === "string" ? known.get(name) : undefined;
  if (found !== undefined) return found;
  const zone = makeZone(name);
  if (zone === undefined) throw unknownZone(name, option);
  if (known.size >= mostKnown) known.clear();
  known.set(zone.name, zone);
  return zone;
}

function makeZone(name: unknown): Zone | undefined {
  if (typeof name !== "string" || name.length > longestName || !zoneName.test(name)) return undefined;
  if (name === "UTC") return { name, offsetAt: () => 0 };
  try {
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      calendar: "gregory",
      numberingSystem: "latn",
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    return { name, offsetAt: (at) => localSecond(format.format(at)) - Math.floor(at / 1_000) * 1_000 };
  } catch {
    return undefined;
  }
}

/** Reads `MM/DD/YYYY, hh:mm:ss`. By position, because `formatToParts` takes three times as long. */
function localSecond(text: string): number {
  const part = (from: number, to: number): number => Number(text.slice(from, to));
  return Date.UTC(part(6, 10), part(0, 2) - 1, part(3, 5), part(12, 14), part(15, 17), part(18, 20));
}

function unknownZone(name: unknown, option: string): InvalidOptionError {
  const suggestion =
    typeof name === "string" ? closest(name, ["UTC", ...Intl.supportedValuesOf("timeZone")]) : undefined;
  return new InvalidOptionError(
    option,
    `must be the IANA name of a time zone such as "Europe/Berlin" or "UTC", got ${describe(name)}` +
      (suggestion === undefined ? "" : `; did you mean "${suggestion}"?`),
  );
}

/** The moments at which the clocks of the zone show this local time: one; none where the clocks skip it; two where they repeat it. */
export function momentsOf({ offsetAt }: Zone, local: number): readonly number[] {
  const before = offsetAt(local - dayMs);
  const after = offsetAt(local + dayMs);
  const moments = [local - before];
  if (after !== before) moments.push(local - after);
  return moments.filter((at) => at + offsetAt(at) === local).toSorted((a, b) => a - b);
}

/** The first moment at which the clocks of the zone show this local time, or the moment of the clock change that skips it. */
export function firstMomentOf(zone: Zone, local: number): number {
  const [first] = momentsOf(zone, local);
  if (first !== undefined) return first;
  const { offsetAt } = zone;
  return changeBetween(zone, local - offsetAt(local + dayMs), local - offsetAt(local - dayMs));
}

/** The moment of the clock change after `from`, at `to` at the latest. The offsets of the two differ. */
export function changeBetween({ offsetAt }: Zone, from: number, to: number): number {
  const before = offsetAt(from);
  let low = Math.floor(from / 1_000);
  let high = Math.ceil(to / 1_000);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle * 1_000) === before) low = middle;
    else high = middle;
  }
  return high * 1_000;
}

const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"] as const;

/** A moment on the clocks of a zone, for people: `Sun 2026-03-29 03:00:00 +02:00`. */
export function localText({ offsetAt }: Zone, at: number): string {
  const offset = offsetAt(at);
  const local = new Date(at + offset);
  const minutes = Math.abs(offset) / 60_000;
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  const text = local.toISOString().slice(0, 19).replace("T", " ");
  return `${weekdays[local.getUTCDay()]} ${text} ${offset < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}
