import { until } from "./until.ts";

const hourMs = 3_600_000;

/** Waits until the current hour lasts as long as a test may take, if it is about to end: tests of hours and slots compare across no border. */
export async function untilHourLasts(ms = 30_000): Promise<void> {
  await until(() => hourMs - (Date.now() % hourMs) > ms, {
    deadlineMs: ms + 1_000,
    message: "the next hour has begun",
  });
}
