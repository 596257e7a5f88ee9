import {
  counterNames,
  counters,
  countsBy,
  type Counter,
  type CounterDefinition,
  type Counts,
} from "../model/counters.ts";
import { formatCount } from "../model/figures.ts";
import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Meter } from "../telemetry/meter.ts";
import type { WorkerEvents } from "./events.ts";

const everyMs = 60_000;

const logged = counterNames.filter((counter) => wordsOf(counter) !== undefined);

/** Log one line a minute with what the worker did, if it did anything; the last when it stops. */
export function logTotals(events: Emitter<WorkerEvents>, meter: Meter, logger: Logger): void {
  let timer: NodeJS.Timeout | undefined;
  let before = totalsOf(meter);
  const write = (): void => {
    const now = totalsOf(meter);
    const since = logged.map((name) => [name, now[name] - before[name]] as const);
    before = now;
    const some = since.filter(([, count]) => count > 0);
    if (some.length === 0) return;
    const text = some.map(([name, count]) => `${formatCount(count)} ${wordsOf(name)}`).join(", ");
    logger.info({ totals: Object.fromEntries(since) }, `attempts since the last totals: ${text}`);
  };
  events.on("started", () => {
    // The timer must not keep the process alive.
    timer = setInterval(write, everyMs).unref();
  });
  events.on("stopped", () => {
    clearInterval(timer);
    write();
  });
}

function wordsOf(counter: Counter): string | undefined {
  const { log }: CounterDefinition = counters[counter];
  return log;
}

function totalsOf(meter: Meter): Counts {
  return countsBy((counter) => meter.kinds().reduce((sum, kind) => sum + kind[counter], 0));
}
