import { expect, onTestFinished, test } from "vitest";
import { silentLogger } from "../runtime/logger.ts";
import { Service } from "./service-loop.ts";

function service(tick: () => Promise<number>): Service {
  const made = new Service({ name: "test", logger: silentLogger, tick });
  made.start();
  return made;
}

/** So many milliseconds of this process, not of the clock on the wall. */
async function passed(ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 1));
}

test("a resting or paused service is not overdue", async () => {
  const resting = service(async () => 3_600_000);
  const paused = service(async () => 1);
  paused.pause();
  onTestFinished(async () => void (await Promise.all([resting.stop(), paused.stop()])));
  await passed(20);

  expect([resting.overdueMs, paused.overdueMs]).toEqual([0, 0]);
});

test("a service whose tick does not end is overdue for as long as it takes", async () => {
  let release = (): void => undefined;
  const hung = service(async () => {
    await new Promise<void>((resolve) => (release = resolve));
    return 3_600_000;
  });
  await passed(20);
  expect(hung.overdueMs).toBeGreaterThanOrEqual(19);

  release();
  await passed(5);
  expect(hung.overdueMs).toBe(0);
  await hung.stop();
});
