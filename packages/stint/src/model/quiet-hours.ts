import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { refuseUnknownKeys } from "./options.ts";
import { findZone, firstMomentOf, type Zone } from "./zone.ts";

/** Hours of the day in which jobs do not start. From 22:00 to 07:00 goes over midnight. */
export type QuietHours = {
  /** The local time at which they begin, such as "22:00". */
  from: string;
  /** The local time at which they end, such as "07:00". */
  to: string;
  /** The IANA name of a time zone. Default "UTC". */
  zone?: string;
};

/** Checked quiet hours, as they are stored. */
export type ResolvedQuietHours = Readonly<Required<QuietHours>>;

const timePattern = /^([01]\d|2[0-3]):([0-5]\d)$/;
const dayMs = 86_400_000;

/**
 * Check quiet hours.
 *
 * @throws {InvalidOptionError} A time or the zone cannot work.
 */
export function resolveQuietHours(option: string, hours: QuietHours): ResolvedQuietHours {
  refuseUnknownKeys(option, hours, ["from", "to", "zone"]);
  const [from, to] = (["from", "to"] as const).map((name) => {
    const value: unknown = hours[name];
    if (typeof value === "string" && timePattern.test(value)) return value;
    throw new InvalidOptionError(
      `${option}.${name}`,
      `must be a time of the day from "00:00" to "23:59", got ${describe(value)}`,
    );
  }) as [string, string];
  if (from === to)
    throw new InvalidOptionError(
      option,
      `must begin and end at different times, got ${describe(from)} twice`,
    );
  return Object.freeze({ from, to, zone: findZone(hours.zone ?? "UTC", `${option}.zone`).name });
}

/** The earliest moment from `at` on that is outside the quiet hours: `at` itself, or their end. In milliseconds since 1970. */
export function afterQuietHours({ from, to, zone: name }: ResolvedQuietHours, at: number): number {
  const zone = findZone(name, "quietHours.zone");
  const local = at + zone.offsetAt(at);
  const day = Math.floor(local / dayMs) * dayMs;
  const [begins, ends, time] = [msOf(from), msOf(to), local - day];
  const isQuiet = begins < ends ? time >= begins && time < ends : time >= begins || time < ends;
  if (!isQuiet) return at;
  return endOf(zone, day + (time < ends ? 0 : dayMs) + ends, at);
}

/** Where clocks repeat the end of the quiet hours, and `at` is between its two times, the second time counts. */
function endOf(zone: Zone, local: number, at: number): number {
  const first = firstMomentOf(zone, local);
  return first > at ? first : local - zone.offsetAt(at);
}

function msOf(time: string): number {
  const [, hours, minutes] = timePattern.exec(time) ?? [];
  return (Number(hours) * 60 + Number(minutes)) * 60_000;
}
