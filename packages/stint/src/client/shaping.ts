import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { checkText, closest } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import type { EnqueueRow } from "../sql/enqueue.ts";

/** Until the job that holds the key has started, has finished, or for a `Duration` from its enqueue. */
export type DedupeUntil = "started" | "finished" | (string & {}) | number;

/** How several enqueues of one key become fewer jobs. At most one of these. */
export type ShapingOptions = {
  /**
   * At most one job of this kind with this key until it has started, has finished, or a time has passed. A further enqueue changes
   * nothing and returns that job.
   *
   * With `replace`, the newest enqueue wins: a waiting job gets the new payload, and the new run time if `runAt` or `delay` is given;
   * while a job with the key runs, one new job waits until it has ended. `"payload"` and `"runAt"` replace only that.
   */
  dedupe?: { key?: string; until?: DedupeUntil; replace?: boolean | "payload" | "runAt" };
  /**
   * Run once, `wait` after the last enqueue with this key and with its payload; at the latest `maxWait` after the first. While a job with
   * the key runs, the next one waits for its end, too.
   */
  debounce?: { key?: string; wait: Duration; maxWait?: Duration };
  /** Run at once, then at most once in this time for each key: an enqueue within `every` of the last job returns that job. */
  throttle?: { key?: string; every: Duration };
};

export const shapingKeys = ["dedupe", "debounce", "throttle"] as const satisfies (keyof ShapingOptions)[];

const events = ["started", "finished"] as const;
const replaceable = ["payload", "runAt"] as const;
const longest = { max: 100 * 365 * 86_400_000 };

/** Writes the shaping options of one enqueue into its row. The row has its own key and times already. */
export function setShaping(row: EnqueueRow, what: string, options: ShapingOptions): void {
  const given = shapingKeys.filter((name) => options[name] !== undefined);
  if (given.length === 0) return;
  if (given.length > 1)
    throw new InvalidOptionError(
      what,
      `takes one of dedupe, debounce and throttle, got ${given.join(" and ")}`,
    );
  if (options.dedupe !== undefined) setDedupe(row, what, options.dedupe);
  if (options.debounce !== undefined) setDebounce(row, what, options.debounce);
  if (options.throttle !== undefined) setThrottle(row, what, options.throttle);
}

function setDedupe(row: EnqueueRow, what: string, dedupe: NonNullable<ShapingOptions["dedupe"]>): void {
  const option = `${what}.dedupe`;
  refuseUnknownKeys(option, dedupe, ["key", "until", "replace"]);
  row.dedupe_key = keyOf(row, option, dedupe.key);
  const until = dedupe.until ?? "finished";
  const event = events.find((word) => word === until);
  if (event === undefined) row.dedupe_ms = windowOf(until, option);
  else row.dedupe_until = event;
  const replace = replaceOf(row, option, dedupe.replace);
  if (replace === undefined) return;
  if (event === undefined)
    throw new InvalidOptionError(
      `${option}.replace`,
      'needs until: "started" or "finished": a key held for a time may belong to a job that has ended',
    );
  row.replace = replace;
}

function windowOf(until: unknown, option: string): number {
  const word = typeof until === "string" ? closest(until, events) : undefined;
  if (word !== undefined)
    throw new InvalidOptionError(
      `${option}.until`,
      `must be "started", "finished" or a duration, got ${describe(until)}; did you mean "${word}"?`,
    );
  return toMs(until as Duration, `${option}.until`, { min: 1 });
}

function replaceOf(row: EnqueueRow, option: string, replace: unknown): EnqueueRow["replace"] {
  const hasTime = row.run_at !== undefined || row.delay_ms !== undefined;
  if (replace === undefined || replace === false) return undefined;
  if (replace === true) return hasTime ? "both" : "payload";
  if (replace === "payload") return "payload";
  if (replace === "runAt") {
    if (hasTime) return "run_at";
    throw new InvalidOptionError(`${option}.replace`, 'of "runAt" needs the new time: give runAt or delay');
  }
  const word = typeof replace === "string" ? closest(replace, replaceable) : undefined;
  throw new InvalidOptionError(
    `${option}.replace`,
    `must be true, "payload" or "runAt", got ${describe(replace)}${word === undefined ? "" : `; did you mean "${word}"?`}`,
  );
}

function setDebounce(row: EnqueueRow, what: string, debounce: NonNullable<ShapingOptions["debounce"]>): void {
  const option = `${what}.debounce`;
  refuseUnknownKeys(option, debounce, ["key", "wait", "maxWait"]);
  if (row.run_at !== undefined || row.delay_ms !== undefined)
    throw new InvalidOptionError(option, "sets the run time itself. Leave out runAt and delay");
  row.dedupe_key = keyOf(row, option, debounce.key);
  row.dedupe_until = "finished";
  row.replace = "both";
  row.delay_ms = toMs(debounce.wait, `${option}.wait`, { min: 1, ...longest });
  if (debounce.maxWait === undefined) return;
  row.max_wait_ms = toMs(debounce.maxWait, `${option}.maxWait`, { min: 1, ...longest });
  if (row.max_wait_ms < row.delay_ms)
    throw new InvalidOptionError(
      `${option}.maxWait`,
      `must not be shorter than wait, got ${describe(debounce.maxWait)} and ${describe(debounce.wait)}`,
    );
}

function setThrottle(row: EnqueueRow, what: string, throttle: NonNullable<ShapingOptions["throttle"]>): void {
  const option = `${what}.throttle`;
  refuseUnknownKeys(option, throttle, ["key", "every"]);
  row.dedupe_key = keyOf(row, option, throttle.key);
  row.dedupe_ms = toMs(throttle.every, `${option}.every`, { min: 1 });
}

function keyOf(row: EnqueueRow, option: string, own: unknown): string {
  const key = own ?? row.key;
  if (key !== undefined) return checkText(key, `${option}.key`);
  const name = option.split(".").at(-1);
  throw new InvalidOptionError(
    `${option}.key`,
    `is needed, because this job has no key of its own. Give ${name}: { key }, or a key`,
  );
}
