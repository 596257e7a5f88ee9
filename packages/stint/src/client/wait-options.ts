import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { refuseUnknownKeys } from "../model/options.ts";

type WaitOptions = { timeout?: Duration; signal?: AbortSignal };

/** @throws {InvalidOptionError} An option of `waitFor` cannot work. */
export function resolveWait(options: WaitOptions): {
  timeoutMs: number | undefined;
  signal: AbortSignal | undefined;
} {
  refuseUnknownKeys("waitFor", options, ["timeout", "signal"]);
  const { timeout, signal } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw new InvalidOptionError("waitFor.signal", `must be an AbortSignal, got ${describe(signal)}`);
  return { timeoutMs: timeout === undefined ? undefined : toMs(timeout, "waitFor.timeout"), signal };
}
