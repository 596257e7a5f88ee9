import { afterEach, expect, test, vi } from "vitest";
import type { Db } from "../db/db.ts";
import type { EncodedRow, EnqueueRow, EnqueuedRow } from "../sql/enqueue.ts";
import { Waker } from "./waker.ts";

/** A waker whose wakes the test completes. */
function byHand() {
  const wakes: { hints: unknown; respond: () => void; fail: () => void }[] = [];
  let onWake = (): void => undefined;
  const db = {
    schema: "stint",
    run: async (_: unknown, [hints]: readonly unknown[]) => {
      await new Promise<void>((resolve, reject) => {
        wakes.push({ hints, respond: resolve, fail: () => reject(new Error("connection lost")) });
        onWake();
      });
      return [];
    },
  } as unknown as Db;
  const next = (): Promise<void> => new Promise((resolve) => (onWake = resolve));
  return { waker: new Waker(db), wakes, next, sent: () => wakes.map(({ hints }) => hints) };
}

const encoded = (row: Partial<EnqueueRow>): EncodedRow => ({
  row: { id: "id", kind: "k", queue: "a", ...row },
  payload: "1",
  meta: undefined,
});
const stored = (rows: readonly EncodedRow[], listening: boolean, notCreated?: number): EnqueuedRow[] =>
  rows.map((_, index) => ({
    ordinal: index + 1,
    id: "id",
    created: index !== notCreated,
    status: index === notCreated ? "existing" : "created",
    listening,
  }));

afterEach(() => void vi.restoreAllMocks());

test("enqueues include their wake at 500 a second, also while a wake is in flight", () => {
  const { waker } = byHand();
  const now = vi.spyOn(performance, "now");
  waker.wake(["ready:a"], true);
  const rides = [0, 0.5, 2, 2.5, 4, 6].map((at) => {
    now.mockReturnValue(at);
    const rides = waker.ridesAlong();
    if (rides) waker.rodeAlong(0.9);
    return rides;
  });

  expect(rides).toEqual([true, false, true, false, true, true]);
});

test("the longer commits with a wake take, the fewer enqueues include one", () => {
  const { waker } = byHand();
  const now = vi.spyOn(performance, "now");
  const ridesAt = (at: number): boolean => {
    now.mockReturnValue(at);
    return waker.ridesAlong();
  };
  expect(ridesAt(0)).toBe(true);
  waker.rodeAlong(12);
  expect([5, 10, 12].map(ridesAt)).toEqual([false, false, true]);
  // It waited for the lock of a dedupe key.
  waker.rodeAlong(60_000);
  expect([25, 31, 32].map(ridesAt)).toEqual([false, false, true]);
  waker.rodeAlong(0.2);
  expect([32.5, 33].map(ridesAt)).toEqual([false, true]);
});

test("after a quiet time a wake is sent at once", () => {
  const { waker, sent } = byHand();
  waker.wake(["ready:a"], true);
  expect(sent()).toEqual([["ready:a"]]);
});

test("hints gather while a wake is in flight, each once, and none is lost", async () => {
  const { waker, wakes, next, sent } = byHand();
  waker.wake(["ready:a"], true);
  waker.wake(["ready:b"], true);
  waker.wake(["due", "ready:b"], true);
  expect(sent()).toHaveLength(1);

  const second = next();
  wakes[0]?.respond();
  await second;
  waker.wake(["ready:a"], true);
  const third = next();
  wakes[1]?.fail();
  await third;
  wakes[2]?.respond();
  await waker.idle();

  expect(sent()).toEqual([["ready:a"], ["ready:b", "due"], ["ready:a"]]);
});

test("a stream of enqueues sends a few wakes, not one for each", async () => {
  const { waker, wakes, next } = byHand();
  const began = performance.now();
  for (let round = 0; round < 5; round++) {
    const sent = next();
    waker.wake(["ready:a"], true);
    if (round > 0) await sent;
    wakes[round]?.respond();
    await Promise.resolve();
  }
  await waker.idle();

  expect(wakes).toHaveLength(5);
  // Each at least two milliseconds after the one before, less what timers may be early.
  expect(performance.now() - began).toBeGreaterThan(4);
});

test("created jobs wake their queue, delayed ones their due time, existing ones none", () => {
  const { waker, sent } = byHand();
  const received: string[] = [];
  waker.listen((hint) => received.push(hint));
  const rows = ["a", "a", "b", "a", "c"].map((queue) => encoded({ queue }));
  rows.push(
    encoded({ queue: "d", delay_ms: 5 }),
    encoded({ queue: "e", run_at: "2999-01-01T00:00:00.000Z" }),
  );
  waker.enqueued(rows, stored(rows, true, 4), true);

  expect(sent()).toEqual([["ready:a", "ready:b", "due"]]);
  expect(received).toEqual(["ready:a", "ready:b", "due"]);
});

test("without other listeners only the workers of this process are notified", async () => {
  const { waker, sent } = byHand();
  const received: string[] = [];
  const stop = waker.listen((hint) => received.push(hint));
  const rows = [encoded({})];
  waker.enqueued(rows, stored(rows, false), true);
  waker.enqueued(rows, stored(rows, true), false);
  stop();
  waker.enqueued(rows, stored(rows, false), true);
  await waker.idle();

  expect(sent()).toEqual([]);
  expect(received).toEqual(["ready:a", "ready:a"]);
});
