import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SleepMode } from "./sleep-mode.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function sleeper(
  afterMs: number | undefined,
  record: () => Promise<void> = async () => await Promise.resolve(),
) {
  const story: string[] = [];
  const sleepMode = new SleepMode({
    afterMs,
    record: async () => {
      story.push("recorded");
      await record();
      return true;
    },
    fallAsleep: () => void story.push("asleep"),
    wakeUp: () => void story.push("awake"),
  });
  return { sleepMode, story };
}

/** Work that the test ends. */
function pending(): { finish: () => void; over: Promise<void> } {
  let finish = (): void => undefined;
  const over = new Promise<void>((resolve) => (finish = resolve));
  return { finish: () => finish(), over };
}

test("it sleeps after so long without work, and records that first", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(4_999);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  await sleepMode.consider(null);
  expect(story).toEqual(["recorded", "asleep"]);
  await sleepMode.consider(null);
  expect(story).toEqual(["recorded", "asleep"]);
});

test("any activity puts sleep off", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(4_000);
  sleepMode.activity();
  await vi.advanceTimersByTimeAsync(4_000);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
});

test("without the option it never sleeps", async () => {
  const { sleepMode, story } = sleeper(undefined);
  await vi.advanceTimersByTimeAsync(10_000_000);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
});

test("any activity wakes it once, and it sleeps again after as long", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  sleepMode.activity();
  sleepMode.activity();
  expect(story).toEqual(["recorded", "asleep", "awake"]);
  await sleepMode.consider(null);
  expect(story).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  expect(story.slice(3)).toEqual(["recorded", "asleep"]);
});

test("it wakes when a service has work", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(7_000);
  await vi.advanceTimersByTimeAsync(6_999);
  expect(story).toEqual(["recorded", "asleep"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(story).toEqual(["recorded", "asleep", "awake"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a job due in years does not wake a sleeping worker at once", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(10 ** 12);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(story).toEqual(["recorded", "asleep"]);
  sleepMode.end();
});

test.each([999, 10, -5])("with work in %s ms it stays awake", async (nextDueMs) => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(60_000);
  await sleepMode.consider(nextDueMs);
  expect(story).toEqual([]);
});

test("a wake that arrives while sleep is recorded keeps it awake", async () => {
  const recording = pending();
  const { sleepMode, story } = sleeper(5_000, () => recording.over);
  await vi.advanceTimersByTimeAsync(5_000);
  const considered = sleepMode.consider(60_000);
  await vi.advanceTimersByTimeAsync(1);
  sleepMode.activity();
  recording.finish();
  await considered;
  expect(story).toEqual(["recorded"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("ended while sleep is recorded, it leaves no timer that keeps the process alive", async () => {
  const recording = pending();
  const { sleepMode, story } = sleeper(5_000, () => recording.over);
  await vi.advanceTimersByTimeAsync(5_000);
  const considered = sleepMode.consider(60_000);
  await vi.advanceTimersByTimeAsync(1);
  sleepMode.end();
  recording.finish();
  await considered;
  expect(story).toEqual(["recorded"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("it stays awake if sleep cannot be recorded", async () => {
  const { sleepMode, story } = sleeper(5_000, async () => await Promise.reject(new Error("away")));
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  expect(story).toEqual(["recorded"]);
  expect(sleepMode.isAsleep).toBe(false);
});

test("ended while asleep, it leaves no timer", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(60_000);
  sleepMode.end();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(story).toEqual(["recorded", "asleep"]);
});

test("it stays awake if its row is gone", async () => {
  const story: string[] = [];
  const sleepMode = new SleepMode({
    afterMs: 1_000,
    record: async () => await Promise.resolve(false),
    fallAsleep: () => void story.push("asleep"),
    wakeUp: () => void story.push("awake"),
  });
  await vi.advanceTimersByTimeAsync(1_000);
  await sleepMode.consider(null);
  sleepMode.activity();

  expect(story).toEqual([]);
  expect(sleepMode.isAsleep).toBe(false);
});
