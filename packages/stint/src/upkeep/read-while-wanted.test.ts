import { expect, onTestFinished, test } from "vitest";
import { silentLogger } from "../runtime/logger.ts";
import { readWhileWanted } from "./read-while-wanted.ts";
import type { RunningService } from "./upkeep-service.ts";

type End = (nextMs: number | null) => void;

/** A service whose reads wait until the test ends them. */
function startReader(): { running: RunningService; reads: End[] } {
  const reads: End[] = [];
  const running = readWhileWanted({
    name: "reader",
    logger: silentLogger,
    read: () => new Promise((end) => reads.push(end)),
  });
  running.service.start();
  onTestFinished(async () => {
    for (const end of reads) end(null);
    await running.service.stop();
  });
  return { running, reads };
}

test("nothing is read until an idle check finds something", async () => {
  const { running, reads } = startReader();
  running.onIdleCheck?.(null, "");
  expect(reads).toHaveLength(0);
  running.onIdleCheck?.(0, "");
  await expect.poll(() => reads.length).toBe(1);
});

test("a wake during a read that finds nothing causes another read", async () => {
  const { running, reads } = startReader();
  running.onWake?.();
  await expect.poll(() => reads.length).toBe(1);
  running.onWake?.();
  reads[0]?.(null);
  await expect.poll(() => reads.length).toBe(2);
});
