import { InvalidOptionError } from "../errors.ts";
import { clip } from "../runtime/text.ts";
import { describe } from "./describe.ts";
import { toMs, type Duration } from "./duration.ts";
import { refuseUnknownKeys, requireOneOf } from "./options.ts";
import { handlerReasons, type HandlerParkReason } from "./park-reasons.ts";
import { read } from "./safe-read.ts";

// A registered symbol: JSON cannot contain it, and handlers bundled with another copy of Stint share it.
const brand: unique symbol = Symbol.for("stint.outcome");

/** Run the job again later without spending an attempt. */
export type Snooze = { readonly [brand]: true; readonly type: "snooze"; readonly delayMs: number };

/** Cancel the job. */
export type Cancel = { readonly [brand]: true; readonly type: "cancel"; readonly reason: string | undefined };

/** Hold the job back until a person or a time lifts it, without spending an attempt. */
export type Park = {
  readonly [brand]: true;
  readonly type: "park";
  readonly reason: HandlerParkReason;
  /** A time, or milliseconds from now. */
  readonly until: Date | number | undefined;
  readonly note: string | undefined;
};

/** The job has ended, and the chain continues with the job that `continueWith` was given. */
export type Continued = { readonly [brand]: true; readonly type: "continued" };

/** Park the job until the children that it spawned have ended. */
export type WaitForChildren = {
  readonly [brand]: true;
  readonly type: "children";
  readonly onFailure: "park" | "cancel" | "run";
};

/** An outcome that a handler returns instead of a result. */
export type Outcome = Snooze | Cancel | Park | Continued | WaitForChildren;

/** The value of `complete(…)`: the job has already succeeded. A handler may return it instead of its result. */
export type Completed = { readonly [brand]: true; readonly type: "completed" };

export const completed: Completed = Object.freeze<Completed>({ [brand]: true, type: "completed" });

export const continued: Continued = Object.freeze<Continued>({ [brand]: true, type: "continued" });

export function waitForChildren(onFailure: WaitForChildren["onFailure"] = "park"): WaitForChildren {
  return Object.freeze<WaitForChildren>({
    [brand]: true,
    type: "children",
    onFailure: requireOneOf("waitForChildren.onFailure", onFailure, ["park", "cancel", "run"]),
  });
}

/**
 * Return this from a handler to run the job again after `delay`, without spending an attempt.
 *
 * @throws {InvalidOptionError} `delay` is not a duration.
 */
export function snooze(delay: Duration): Snooze {
  return Object.freeze<Snooze>({ [brand]: true, type: "snooze", delayMs: toMs(delay, "snooze.delay") });
}

/**
 * Return this from a handler to end the job. Its state is then `cancelled`, not `dead`.
 *
 * The reason is cut to 512 bytes, and control characters in it become spaces: refusing it here would turn a
 * cancel into a failure, and the job would run again.
 */
export function cancel(reason?: string): Cancel {
  if (reason !== undefined && typeof reason !== "string") {
    throw new InvalidOptionError("cancel.reason", `must be a string, got ${describe(reason)}`);
  }
  return Object.freeze<Cancel>({ [brand]: true, type: "cancel", reason: toLine(reason) });
}

/** One short line for people; undefined if nothing is left of it. */
function toLine(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const line = clip(text, 512)
    .replaceAll(/\p{Cc}+/gu, " ")
    .trim();
  return line === "" ? undefined : line;
}

export type ParkOptions = {
  /** When the job becomes ready by itself: a time, or a duration from now. Left out: when `runNow` lifts it. */
  readonly until?: Date | Duration;
  /** Why, for the person who looks at it. Cut to 512 bytes. */
  readonly note?: string;
};

/**
 * Return this from a handler to hold the job back without spending an attempt. `park("review")` is for a person to look at: the job runs
 * again when `runNow` lifts it, or at `until`.
 *
 * @throws {InvalidOptionError} The reason is none that a handler may give, or an option is wrong.
 */
export function park(reason: HandlerParkReason, options: ParkOptions = {}): Park {
  const checked = requireOneOf("park.reason", reason, handlerReasons);
  refuseUnknownKeys("park", options, ["until", "note"]);
  const { until, note } = options;
  if (note !== undefined && typeof note !== "string")
    throw new InvalidOptionError("park.note", `must be a string, got ${describe(note)}`);
  return Object.freeze<Park>({
    [brand]: true,
    type: "park",
    reason: checked,
    until: until === undefined ? undefined : toUntil(until),
    note: toLine(note),
  });
}

const lastTime = Date.UTC(9999, 11, 31);

function toUntil(until: Date | Duration): Date | number {
  if (!(until instanceof Date)) return toMs(until, "park.until");
  const ms = until.getTime();
  if (!(ms >= 0 && ms <= lastTime))
    throw new InvalidOptionError("park.until", `must be a time from 1970 to 9999, got ${describe(until)}`);
  return new Date(ms);
}

/** Whether a handler returned an outcome rather than a result. Never throws. */
export function isOutcome(value: unknown): value is Outcome | Completed {
  if (typeof value !== "object" || value === null) return false;
  try {
    return Object.hasOwn(value, brand);
  } catch {
    return false;
  }
}

/**
 * A checked copy of the outcome that a handler returned. Any code can put the symbol on its own object, whose contents would
 * otherwise reach the database unchecked.
 *
 * @throws {InvalidOptionError} It was not made by `snooze`, `park`, `cancel`, `continueWith` or `waitForChildren`.
 */
export function toOutcome(value: Outcome | Completed): Outcome {
  const type = read(value, "type");
  if (type === "snooze") return snooze(read(value, "delayMs") as Duration);
  if (type === "cancel") return cancel(read(value, "reason") as string | undefined);
  if (type === "park") {
    const until = read(value, "until") as Date | number | undefined;
    const note = read(value, "note") as string | undefined;
    return park(read(value, "reason") as HandlerParkReason, {
      ...(until === undefined ? {} : { until }),
      ...(note === undefined ? {} : { note }),
    });
  }
  if (type === "continued") return continued;
  if (type === "children") return waitForChildren(read(value, "onFailure") as WaitForChildren["onFailure"]);
  const makers = "snooze(…), park(…), cancel(…), continueWith(…) or waitForChildren(…)";
  throw new InvalidOptionError("outcome", `must be made by ${makers}, got ${describe(value)}`);
}
