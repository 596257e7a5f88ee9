import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { WakeRouter, type WakeRouterOptions } from "./wake-router.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A router whose worker serves `mail`, and what it did. */
function router({ hasRoom = true } = {}) {
  const hints: (string | undefined)[] = [];
  const notified: string[] = [];
  let activities = 0;
  const made = new WakeRouter({
    id: "web-00000a",
    notifyReady: (queues: readonly string[]) => notified.push(...queues),
    pools: { serves: (queue: string) => queue === "mail", saturated: !hasRoom },
    loop: { claimAtOnce: (queue: string | undefined) => hints.push(queue), mayClaim: () => hasRoom },
    sleepMode: { activity: () => (activities += 1) },
    row: { wantsWakes: true },
    upkeep: { wake: () => undefined },
  } as Partial<Record<keyof WakeRouterOptions, unknown>> as unknown as WakeRouterOptions);
  return { wake: (hint: string) => made.wake(hint), hints, notified, activities: () => activities };
}

test("a worker claims at once for wakes that name it, and for those that name none", () => {
  const { wake, hints } = router();
  wake("ready/00000a,00000b|00000c,00000d:mail");
  wake("ready:mail");
  expect(hints).toEqual(["mail", "mail"]);
});

test("a wake for other workers neither claims nor ends the sleep of this one", () => {
  const { wake, hints, activities } = router();
  wake("ready/00000b,00000c|00000d,00000e:mail");
  vi.advanceTimersByTime(60_000);
  expect(hints).toEqual([]);
  expect(activities()).toBe(0);
});

test("a worker that is named for later looks once for all wakes until then", () => {
  const { wake, hints } = router();
  for (let n = 0; n < 5; n++) wake("ready/00000b,00000c|00000a,00000d:mail");
  expect(hints).toEqual([]);
  vi.advanceTimersByTime(250);
  expect(hints).toEqual(["mail"]);
  wake("ready/00000b,00000c|00000d,00000a:mail");
  vi.advanceTimersByTime(999);
  expect(hints).toEqual(["mail"]);
  vi.advanceTimersByTime(1);
  expect(hints).toEqual(["mail", "mail"]);
});

test("the first named worker wakes all others if it has no room", () => {
  const full = router({ hasRoom: false });
  full.wake("ready/00000b,00000a|00000c,00000d:mail");
  full.wake("ready:mail");
  expect(full.notified).toEqual([]);
  full.wake("ready/00000a,00000b|00000c,00000d:mail");
  expect(full.notified).toEqual(["mail"]);
  const idle = router();
  idle.wake("ready/00000a,00000b|00000c,00000d:mail");
  expect(idle.notified).toEqual([]);
});
