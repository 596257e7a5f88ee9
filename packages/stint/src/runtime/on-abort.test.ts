import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { onAbort } from "./on-abort.ts";

test("an abort calls every callback once, through one listener", () => {
  const controller = new AbortController();
  const called: number[] = [];
  for (let n = 0; n < 100; n += 1) onAbort(controller.signal, () => called.push(n));
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  controller.abort();
  controller.abort();
  expect(called).toEqual(Array.from({ length: 100 }, (_, n) => n));
});

test("a callback that was taken back is not called, even during the abort", () => {
  const controller = new AbortController();
  const called: string[] = [];
  onAbort(controller.signal, () => {
    called.push("first");
    takeBack();
  });
  const takeBack = onAbort(controller.signal, () => called.push("second"));
  controller.abort();
  expect(called).toEqual(["first"]);
});

test("the listener is removed with the last callback, and added for the next", () => {
  const { signal } = new AbortController();
  const first = onAbort(signal, () => undefined);
  const second = onAbort(signal, () => undefined);
  first();
  first();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  second();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  const third = onAbort(signal, () => undefined);
  first();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  third();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
