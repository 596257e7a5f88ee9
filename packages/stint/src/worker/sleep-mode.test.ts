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
      story.push("said");
      await record();
      return true;
    },
    fallAsleep: () => void story.push("asleep"),
    wakeUp: () => void story.push("awake"),
  });
  return { sleepMode, story };
}

/** Something that takes until it is let go. */
function held(): { letGo: () => void; over: Promise<void> } {
  let letGo = (): void => undefined;
  const over = new Promise<void>((resolve) => (letGo = resolve));
  return { letGo: () => letGo(), over };
}

test("it falls asleep after so long without anything, and says so before", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(4_999);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  await sleepMode.consider(null);
  expect(story).toEqual(["said", "asleep"]);
  await sleepMode.consider(null);
  expect(story).toEqual(["said", "asleep"]);
});

test("whatever happens puts it off", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(4_000);
  sleepMode.activity();
  await vi.advanceTimersByTimeAsync(4_000);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
});

test("without a time to wait for it never sleeps", async () => {
  const { sleepMode, story } = sleeper(undefined);
  await vi.advanceTimersByTimeAsync(10_000_000);
  await sleepMode.consider(null);
  expect(story).toEqual([]);
});

test("asleep, it is woken by whatever happens, once, and falls asleep again after as long", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  sleepMode.activity();
  sleepMode.activity();
  expect(story).toEqual(["said", "asleep", "awake"]);
  await sleepMode.consider(null);
  expect(story).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  expect(story.slice(3)).toEqual(["said", "asleep"]);
});

test("it wakes when a service has work", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(7_000);
  await vi.advanceTimersByTimeAsync(6_999);
  expect(story).toEqual(["said", "asleep"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(story).toEqual(["said", "asleep", "awake"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a job that is due in years does not wake it at once", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(10 ** 12);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(story).toEqual(["said", "asleep"]);
  sleepMode.end();
});

test.each([999, 10, -5])("with work in %s ms it stays awake", async (nextDueMs) => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(60_000);
  await sleepMode.consider(nextDueMs);
  expect(story).toEqual([]);
});

test("a wake that comes while it says good night keeps it awake", async () => {
  const saying = held();
  const { sleepMode, story } = sleeper(5_000, () => saying.over);
  await vi.advanceTimersByTimeAsync(5_000);
  const considered = sleepMode.consider(60_000);
  await vi.advanceTimersByTimeAsync(1);
  sleepMode.activity();
  saying.letGo();
  await considered;
  expect(story).toEqual(["said"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("ended while it says good night it does not fall asleep, and leaves no alarm that keeps the process", async () => {
  const saying = held();
  const { sleepMode, story } = sleeper(5_000, () => saying.over);
  await vi.advanceTimersByTimeAsync(5_000);
  const considered = sleepMode.consider(60_000);
  await vi.advanceTimersByTimeAsync(1);
  sleepMode.end();
  saying.letGo();
  await considered;
  expect(story).toEqual(["said"]);
  expect(vi.getTimerCount()).toBe(0);
});

test("if it cannot say so it stays awake", async () => {
  const { sleepMode, story } = sleeper(5_000, async () => await Promise.reject(new Error("away")));
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(null);
  expect(story).toEqual(["said"]);
  expect(sleepMode.isAsleep).toBe(false);
});

test("ended in its sleep, it leaves no alarm", async () => {
  const { sleepMode, story } = sleeper(5_000);
  await vi.advanceTimersByTimeAsync(5_000);
  await sleepMode.consider(60_000);
  sleepMode.end();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(story).toEqual(["said", "asleep"]);
});

test("where its row is gone, it stays awake", async () => {
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
