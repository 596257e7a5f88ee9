import { InvalidOptionError } from "../errors.ts";
import { readCron } from "./cron.ts";
import { describe } from "./describe.ts";
import { longestMs, toMs, type Duration } from "./duration.ts";
import { requireDate, requireOneOf } from "./options.ts";
import { resolveQuietHours, type QuietHours, type ResolvedQuietHours } from "./quiet-hours.ts";
import { cronSlots, everySlots, type SlotRule } from "./slots.ts";
import { findZone } from "./zone.ts";

/** What becomes of slots that came while no worker ran: none of them runs, the last one does, or all do. */
export const catchUps = ["none", "last", "all"] as const;
export type CatchUp = (typeof catchUps)[number];

/** What becomes of a slot that comes while the job of the slot before has not ended: it is skipped, waits for that job, or runs beside it. */
export const overlaps = ["skip", "queue", "allow"] as const;
export type Overlap = (typeof overlaps)[number];

/** When a schedule is due, and what happens when it is late. */
export type ScheduleTiming = (
  | {
      /**
       * `minute hour day month weekday`, optionally with seconds before them, on the clocks of `zone`. A time that clocks skip happens
       * when they change; a time that they repeat happens once.
       */
      cron: string;
      every?: undefined;
    }
  | {
      cron?: undefined;
      /** An interval of real time, at least one second. Counted from `startAt`, else from 1970-01-01 00:00 UTC. */
      every: Duration;
    }
) & {
  /** The IANA name of a time zone. Default "UTC". */
  zone?: string;
  /** Slots that came while no worker ran. Default "last". */
  catchUp?: CatchUp;
  /** Each slot fires up to this much later; how much depends on the schedule and the slot only. Default none. */
  jitter?: Duration;
  /** A slot that comes while the job of the slot before has not ended. Default "allow". */
  overlap?: Overlap;
  /** No slot before this time. */
  startAt?: Date;
  /** No slot after this time. */
  endAt?: Date;
  /** Jobs of slots within these hours start when the hours are over. */
  quietHours?: QuietHours;
};

/** Checked `ScheduleTiming`, as the database keeps it. Times in milliseconds since 1970. */
export type ResolvedTiming = {
  readonly cron: string | null;
  readonly everyMs: number | null;
  readonly zone: string;
  readonly startAt: number | null;
  readonly endAt: number | null;
  readonly jitterMs: number;
  readonly catchUp: CatchUp;
  readonly overlap: Overlap;
  readonly quietHours: ResolvedQuietHours | null;
};

export const timingKeys = [
  "cron",
  "every",
  "zone",
  "catchUp",
  "jitter",
  "overlap",
  "startAt",
  "endAt",
  "quietHours",
] as const satisfies (keyof ScheduleTiming)[];

const shortestEveryMs = 1_000;
const longestJitterMs = 86_400_000;
const latest = Date.UTC(9999, 11, 31);

/**
 * Check the timing of a schedule. Unknown keys are refused by the caller.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export function resolveTiming(what: string, timing: ScheduleTiming): ResolvedTiming {
  const { cron, every, zone = "UTC", catchUp = "last", overlap = "allow", jitter = 0 } = timing;
  if ((cron === undefined) === (every === undefined))
    throw new InvalidOptionError(
      what,
      cron === undefined ? "needs cron or every: when is it due?" : "takes cron or every, not both",
    );
  const startAt = timeOf(`${what}.startAt`, timing.startAt);
  const endAt = timeOf(`${what}.endAt`, timing.endAt);
  if (startAt !== null && endAt !== null && endAt < startAt)
    throw new InvalidOptionError(
      `${what}.endAt`,
      `must not be before startAt, got ${describe(timing.endAt)}`,
    );
  return Object.freeze({
    cron: cron === undefined ? null : readCron(cron, `${what}.cron`).text,
    everyMs:
      every === undefined ? null : toMs(every, `${what}.every`, { min: shortestEveryMs, max: longestMs }),
    zone: findZone(zone, `${what}.zone`).name,
    startAt,
    endAt,
    jitterMs: toMs(jitter, `${what}.jitter`, { max: longestJitterMs }),
    catchUp: requireOneOf(`${what}.catchUp`, catchUp, catchUps),
    overlap: requireOneOf(`${what}.overlap`, overlap, overlaps),
    quietHours:
      timing.quietHours === undefined ? null : resolveQuietHours(`${what}.quietHours`, timing.quietHours),
  });
}

/** @throws {InvalidOptionError} It can have no slot any more: its end is over. */
export function refuseEnded(what: string, { endAt }: ResolvedTiming, now: number): void {
  if (endAt !== null && endAt <= now)
    throw new InvalidOptionError(
      `${what}.endAt`,
      `must be in the future, got ${new Date(endAt).toISOString()}`,
    );
}

function timeOf(option: string, value: Date | undefined): number | null {
  if (value === undefined) return null;
  const at = requireDate(option, value).getTime();
  if (at < 0 || at > latest)
    throw new InvalidOptionError(option, `must be from 1970 to 9999, got ${describe(value)}`);
  return at;
}

/** When a schedule is due. */
export type SlotTiming = Pick<ResolvedTiming, "cron" | "everyMs" | "zone" | "startAt" | "endAt">;

/**
 * The slots of a schedule, from `startAt` to `endAt`.
 *
 * @throws {InvalidOptionError} This process does not know its pattern or its zone.
 */
export function slotsOf(timing: SlotTiming): SlotRule {
  const { cron, everyMs, zone, startAt, endAt } = timing;
  const rule =
    cron === null
      ? everySlots(everyMs ?? shortestEveryMs, startAt ?? 0)
      : cronSlots(readCron(cron, "cron"), findZone(zone, "zone"));
  return (after) => {
    const slot = rule(startAt === null ? after : Math.max(after, startAt - 1));
    return slot === null || (endAt !== null && slot > endAt) ? null : slot;
  };
}

/** When a slot fires: the slot itself, or up to `jitterMs` later. The same for every worker. */
export function fireTime(name: string, slot: number, jitterMs: number): number {
  return jitterMs === 0 ? slot : slot + Math.floor(fraction(`${name}@${slot}`) * jitterMs);
}

/** From 0 to 1, spread evenly (FNV-1a). */
function fraction(text: string): number {
  let hash = 0x81_1c_9d_c5;
  for (let index = 0; index < text.length; index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01_00_01_93) >>> 0;
  // The last characters of similar texts reach only the low bits.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85_eb_ca_6b) >>> 0;
  return (hash ^ (hash >>> 13)) >>> 0 === 0 ? 0 : ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}
