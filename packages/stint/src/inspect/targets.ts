import { toMs, type Duration } from "../model/duration.ts";
import { refuseUnknownKeys } from "../model/options.ts";

/** What the age of the oldest ready job of a queue should stay below. */
export type Targets = { readonly targetMs: number; readonly byQueue: ReadonlyMap<string, number> };

/**
 * Five minutes unless it is said otherwise: what waits longer is noticed by whoever waits for it.
 *
 * @throws {InvalidOptionError} One is not a length of time.
 */
export function resolveTargets(options: {
  target?: Duration;
  targets?: Readonly<Record<string, Duration>>;
}): Targets {
  const { target = "5m", targets = {} } = options;
  // Any name may be a queue's; what is checked is that it is an object.
  refuseUnknownKeys("inspector.targets", targets, Object.keys(targets));
  return {
    targetMs: toMs(target, "inspector.target", { min: 1 }),
    byQueue: new Map(
      Object.entries(targets).map(([queue, own]) => [
        queue,
        toMs(own, `inspector.targets.${queue}`, { min: 1 }),
      ]),
    ),
  };
}
