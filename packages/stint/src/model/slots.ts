import type { CronPattern } from "./cron.ts";
import { changeBetween, firstMomentOf, momentsOf, type Zone } from "./zone.ts";

/** When a schedule is due: the first slot after a moment, or null if there is none any more. All in milliseconds since 1970. */
export type SlotRule = (after: number) => number | null;

/** Longer than any time by which clocks are set back at once. */
const longestRepeatMs = 26 * 3_600_000;
// After the year 9999 Postgres and JavaScript write dates differently.
const latest = Date.UTC(10_000, 0, 1) - 1;

/** Multiples of an interval of real time, counted from `anchor`. */
export function everySlots(everyMs: number, anchor: number): SlotRule {
  return (after) => {
    const next = anchor + (Math.floor((after - anchor) / everyMs) + 1) * everyMs;
    return next > latest ? null : next;
  };
}

/**
 * A cron pattern on the clocks of a zone, by the rule of Debian's cron. A fixed time of the day happens once: if clocks skip it, at the
 * moment they change; if they repeat it, the first time. A pattern with `*` in its seconds, minutes or hours follows real time: whenever
 * the clocks show a matching time.
 */
export function cronSlots(pattern: CronPattern, zone: Zone): SlotRule {
  const next = pattern.isFixed ? nextFixed : nextRunning;
  return (after) => {
    const at = next(pattern, zone, after);
    return at === null || at > latest ? null : at;
  };
}

function nextFixed(pattern: CronPattern, zone: Zone, after: number): number | null {
  let local: number | null = after + zone.offsetAt(after);
  for (;;) {
    local = pattern.after(local);
    if (local === null) return null;
    const at = firstMomentOf(zone, local);
    // The clocks show this time for the second time, or it was skipped and happened at the change.
    if (at > after) return at;
  }
}

function nextRunning(pattern: CronPattern, zone: Zone, after: number): number | null {
  const offset = zone.offsetAt(after);
  let local = pattern.after(after + offset);
  let at: number | undefined;
  while (local !== null && at === undefined) {
    at = momentsOf(zone, local).find((moment) => moment > after);
    if (at === undefined) local = pattern.after(local);
  }
  return repeated(pattern, zone, after, at) ?? at ?? null;
}

/** If clocks are set back before `at`, the local times until then come again, and one of them may match. */
function repeated(
  pattern: CronPattern,
  zone: Zone,
  after: number,
  at: number | undefined,
): number | undefined {
  const end = Math.min(at ?? Infinity, after + longestRepeatMs);
  const offset = zone.offsetAt(end);
  if (offset >= zone.offsetAt(after)) return undefined;
  const change = changeBetween(zone, after, end);
  // Also a match at the very moment of the change counts.
  const local = pattern.after(change + offset - 1_000);
  const again = local === null ? undefined : momentsOf(zone, local).find((moment) => moment >= change);
  return again !== undefined && again < (at ?? Infinity) ? again : undefined;
}
