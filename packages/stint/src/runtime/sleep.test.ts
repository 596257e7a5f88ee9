import { getEventListeners } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { sleep, Wakeable } from "./sleep.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Notes when a promise has settled, for asking while time stands still. */
function watch(promise: Promise<unknown>) {
  const seen = { done: false };
  void promise.then(() => {
    seen.done = true;
  });
  return seen;
}

test("a sleep lasts as long as requested", async () => {
  const slept = watch(sleep(1_000));
  await vi.advanceTimersByTimeAsync(999);
  expect(slept.done).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(slept.done).toBe(true);
});

test("abort ends a sleep early, without an error or a leftover listener", async () => {
  const controller = new AbortController();
  const slept = sleep(1_000, controller.signal);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  controller.abort();

  await expect(slept).resolves.toBeUndefined();
  expect(vi.getTimerCount()).toBe(0);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
});

test("a sleep that ran its time leaves nothing on its signal", async () => {
  const { signal } = new AbortController();
  const slept = sleep(5, signal);
  await vi.advanceTimersByTimeAsync(5);
  await slept;
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("with an aborted signal there is no sleep", async () => {
  await expect(sleep(1_000, AbortSignal.abort())).resolves.toBeUndefined();
  expect(vi.getTimerCount()).toBe(0);
});

test("a sleep longer than any timer is slept in parts", async () => {
  const days = 60 * 86_400_000;
  const slept = watch(sleep(days));
  await vi.advanceTimersByTimeAsync(days - 1);
  expect(slept.done).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(slept.done).toBe(true);
});

test("an endless sleep ends by its signal", async () => {
  const controller = new AbortController();
  const slept = watch(sleep(Number.POSITIVE_INFINITY, controller.signal));
  await vi.advanceTimersByTimeAsync(2 ** 32);
  expect(slept.done).toBe(false);
  controller.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(slept.done).toBe(true);
});

test.each([0, -5, Number.NaN])("a sleep of %d ms is over in the next turn", async (ms) => {
  const slept = watch(sleep(ms));
  await vi.advanceTimersByTimeAsync(0);
  expect(slept.done).toBe(true);
});

test("a wait ends by a wake", async () => {
  const wakeable = new Wakeable();
  const waiting = wakeable.wait(1_000);
  wakeable.wake();

  await expect(waiting).resolves.toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test("one wake ends every wait", async () => {
  const wakeable = new Wakeable();
  const waiting = [wakeable.wait(1_000), wakeable.wait(1_000)];
  wakeable.wake();
  await expect(Promise.all(waiting)).resolves.toEqual([true, true]);
});

test("a wait ends by time, and returns that it timed out", async () => {
  const waiting = new Wakeable().wait(1_000);
  await vi.advanceTimersByTimeAsync(1_000);
  await expect(waiting).resolves.toBe(false);
});

test("a wait ends by its signal, and leaves nothing on it", async () => {
  const controller = new AbortController();
  const wakeable = new Wakeable();
  const waiting = wakeable.wait(1_000, controller.signal);
  controller.abort();

  await expect(waiting).resolves.toBe(false);
  await expect(wakeable.wait(1_000, controller.signal)).resolves.toBe(false);
  expect(vi.getTimerCount()).toBe(0);
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
});

test("a wake without a waiter is kept for the next wait, once", async () => {
  const wakeable = new Wakeable();
  wakeable.wake();
  wakeable.wake();

  await expect(wakeable.wait(1_000)).resolves.toBe(true);
  const second = wakeable.wait(1_000);
  await vi.advanceTimersByTimeAsync(1_000);
  await expect(second).resolves.toBe(false);
});

test("a wake right after the one that ended a wait is kept, not lost", async () => {
  const wakeable = new Wakeable();
  const first = wakeable.wait(1_000);
  wakeable.wake();
  wakeable.wake();

  await expect(first).resolves.toBe(true);
  await expect(wakeable.wait(1_000)).resolves.toBe(true);
});

test("a wake right after a wait was stopped is kept for the next one", async () => {
  const controller = new AbortController();
  const wakeable = new Wakeable();
  const stopped = wakeable.wait(1_000, controller.signal);
  controller.abort();
  wakeable.wake();

  await expect(stopped).resolves.toBe(false);
  await expect(wakeable.wait(1_000)).resolves.toBe(true);
});

test("a wake calls the callback before it returns", () => {
  const wakeable = new Wakeable();
  const calls: boolean[] = [];
  expect(wakeable.whenWoken(1_000, (woken) => calls.push(woken))).toBe(true);
  wakeable.wake();
  expect(calls).toEqual([true]);
  expect(vi.getTimerCount()).toBe(0);

  // This wake is kept, because nothing waits for it.
  wakeable.wake();
  expect(wakeable.whenWoken(1_000, (woken) => calls.push(woken))).toBe(false);
  expect(calls).toEqual([true]);
});

test("without a wake the callback is called after the time", () => {
  const wakeable = new Wakeable();
  const calls: boolean[] = [];
  wakeable.whenWoken(1_000, (woken) => calls.push(woken));
  vi.advanceTimersByTime(999);
  expect(calls).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(calls).toEqual([false]);
});
