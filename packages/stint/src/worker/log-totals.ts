import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import type { KindMeter, Meter } from "../telemetry/meter.ts";
import type { WorkerEvents } from "./events.ts";

const everyMs = 60_000;

const counted = [
  "succeeded",
  "failed",
  "timedOut",
  "dead",
  "cancelled",
  "snoozed",
  "released",
  "rescued",
  "leaseLost",
] as const satisfies (keyof KindMeter)[];

type Totals = Record<(typeof counted)[number], number>;

/** One line a minute with what the worker did in it, if it did anything; the last when it stops. */
export function logTotals(events: Emitter<WorkerEvents>, meter: Meter, logger: Logger): void {
  let timer: NodeJS.Timeout | undefined;
  let before = totalsOf(meter);
  const write = (): void => {
    const now = totalsOf(meter);
    const since = counted.map((name) => [name, now[name] - before[name]] as const);
    before = now;
    const some = since.filter(([, count]) => count > 0);
    if (some.length === 0) return;
    const text = some.map(([name, count]) => `${count} ${words[name] ?? name}`).join(", ");
    logger.info({ totals: Object.fromEntries(since) }, `attempts since the last totals: ${text}`);
  };
  events.on("started", () => {
    // Not a reason for the process to stay.
    timer = setInterval(write, everyMs).unref();
  });
  events.on("stopped", () => {
    clearInterval(timer);
    write();
  });
}

const words: Partial<Record<keyof Totals, string>> = { timedOut: "timed out", leaseLost: "lost their lease" };

function totalsOf(meter: Meter): Totals {
  const totals = Object.fromEntries(counted.map((name) => [name, 0])) as Totals;
  for (const kind of meter.kinds()) for (const name of counted) totals[name] += kind[name];
  return totals;
}
