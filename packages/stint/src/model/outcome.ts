import { InvalidOptionError } from "../errors.ts";
import { clip } from "../runtime/text.ts";
import { describe } from "./describe.ts";
import { toMs, type Duration } from "./duration.ts";
import { read } from "./safe-read.ts";

// A registered symbol: no JSON can carry it, yet handlers bundled with their own copy of Stint share it.
const brand: unique symbol = Symbol.for("stint.outcome");

/** Run the job again later without spending an attempt. */
export type Snooze = { readonly [brand]: true; readonly type: "snooze"; readonly delayMs: number };

/** End the job for good, on purpose. */
export type Cancel = { readonly [brand]: true; readonly type: "cancel"; readonly reason: string | undefined };

/** What a handler may return instead of a result. */
export type Outcome = Snooze | Cancel;

/** What `complete(…)` resolves with: the job has succeeded already. A handler may return it in place of its result. */
export type Completed = { readonly [brand]: true; readonly type: "completed" };

export const completed: Completed = Object.freeze<Completed>({ [brand]: true, type: "completed" });

/**
 * Return this from a handler to run the job again after `delay`, without spending an attempt.
 *
 * @throws {InvalidOptionError} `delay` is not a duration.
 */
export function snooze(delay: Duration): Snooze {
  return Object.freeze<Snooze>({ [brand]: true, type: "snooze", delayMs: toMs(delay, "snooze.delay") });
}

/**
 * Return this from a handler to end the job for good. It is then `cancelled`, not dead.
 *
 * The reason is cut to 512 bytes, and control characters in it become spaces: refusing it here would turn a
 * cancel into a failure, and the job would run again.
 */
export function cancel(reason?: string): Cancel {
  if (reason !== undefined && typeof reason !== "string") {
    throw new InvalidOptionError("cancel.reason", `must be a string, got ${describe(reason)}`);
  }
  const text =
    reason === undefined
      ? ""
      : clip(reason, 512)
          .replaceAll(/\p{Cc}+/gu, " ")
          .trim();
  return Object.freeze<Cancel>({ [brand]: true, type: "cancel", reason: text === "" ? undefined : text });
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
 * The outcome a handler returned, made anew. Any code can put the brand on an object of its own, and what that holds
 * would otherwise reach the database unchecked.
 *
 * @throws {InvalidOptionError} It was not made by `snooze` or `cancel`.
 */
export function toOutcome(value: Outcome | Completed): Outcome {
  const type = read(value, "type");
  if (type === "snooze") return snooze(read(value, "delayMs") as Duration);
  if (type === "cancel") return cancel(read(value, "reason") as string | undefined);
  throw new InvalidOptionError("outcome", `must be made by snooze(…) or cancel(…), got ${describe(value)}`);
}
