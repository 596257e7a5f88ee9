import { expect, onTestFinished, test, vi } from "vitest";
import { Emitter } from "../runtime/emitter.ts";
import { silentLogger } from "../runtime/logger.ts";
import { Meter } from "../telemetry/meter.ts";
import type { WorkerEvents } from "./events.ts";
import { logTotals } from "./log-totals.ts";

test("totals are logged once a minute if something happened, and at the stop", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const lines: { fields: object; message: string }[] = [];
  const events = new Emitter<WorkerEvents>(() => undefined);
  const meter = new Meter();
  const logger = {
    ...silentLogger,
    info: (fields: object, message: string) => lines.push({ fields, message }),
  };
  logTotals(events, meter, logger);
  events.emit("started", { worker: "w" });

  vi.advanceTimersByTime(180_000);
  expect(lines).toEqual([]);

  meter.of("default", "a").succeeded += 3;
  meter.of("other", "b").succeeded += 2;
  meter.of("other", "b").timedOut += 1;
  vi.advanceTimersByTime(59_000);
  expect(lines).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(lines).toEqual([
    {
      fields: { totals: expect.objectContaining({ succeeded: 5, timedOut: 1, dead: 0 }) as object },
      message: "attempts since the last totals: 5 succeeded, 1 timed out",
    },
  ]);

  vi.advanceTimersByTime(60_000);
  expect(lines).toHaveLength(1);
  meter.of("default", "a").dead += 1;
  events.emit("stopped", { worker: "w", drained: 0, released: 0, ms: 1 });
  expect(lines[1]).toMatchObject({ message: "attempts since the last totals: 1 dead" });
  expect(vi.getTimerCount()).toBe(0);
});
