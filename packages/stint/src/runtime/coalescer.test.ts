import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Coalescer } from "./coalescer.ts";

/** A coalescer whose sends the test completes. */
function byHand(options: { maxBatch?: number; inFlight?: number; sends?: "at once" | "after turn" } = {}) {
  const sends: {
    items: number[];
    respond: (results: (number | Error)[]) => void;
    fail: (error: Error) => void;
  }[] = [];
  const coalescer = new Coalescer<number, number>({
    maxBatch: options.maxBatch ?? 100,
    inFlight: options.inFlight ?? 1,
    sends: options.sends ?? "at once",
    send: (items) => new Promise((respond, fail) => sends.push({ items, respond, fail })),
  });
  const nth = (index: number) => {
    const send = sends[index];
    if (send === undefined) throw new Error(`there is no send ${index}`);
    return send;
  };
  return { coalescer, sends, nth };
}

const turn = () => Promise.resolve();
/** Enough turns for results to pass through a few promises, without any delay. */
const turns = async () => {
  for (let count = 0; count < 10; count++) await turn();
};

test("an item submitted while idle is sent in the same turn", async () => {
  const { coalescer, sends, nth } = byHand();
  const result = coalescer.submit(1);
  await turn();

  expect(sends.map(({ items }) => items)).toEqual([[1]]);
  nth(0).respond([10]);
  await expect(result).resolves.toBe(10);
});

test("items submitted in one turn share a send", async () => {
  const { coalescer, sends, nth } = byHand();
  const results = [1, 2, 3].map((item) => coalescer.submit(item));
  await turn();

  expect(sends.map(({ items }) => items)).toEqual([[1, 2, 3]]);
  nth(0).respond([10, 20, 30]);
  await expect(Promise.all(results)).resolves.toEqual([10, 20, 30]);
});

test("sent after the turn of the event loop, items of all its microtasks share a send", async () => {
  const { coalescer, sends, nth } = byHand({ sends: "after turn" });
  const results = [coalescer.submit(1)];
  await turns();
  results.push(coalescer.submit(2));
  expect(sends).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));

  expect(sends.map(({ items }) => items)).toEqual([[1, 2]]);
  nth(0).respond([10, 20]);
  await expect(Promise.all(results)).resolves.toEqual([10, 20]);
});

test("items gather while a send is out, and go out together when it returns", async () => {
  const { coalescer, sends, nth } = byHand();
  void coalescer.submit(1);
  await turn();
  void coalescer.submit(2);
  await turns();
  void coalescer.submit(3);
  await turns();
  expect(sends).toHaveLength(1);

  nth(0).respond([10]);
  await turns();
  expect(sends.map(({ items }) => items)).toEqual([[1], [2, 3]]);
});

test("no batch is larger than its limit, and no more than `inFlight` are out", async () => {
  const { coalescer, sends, nth } = byHand({ maxBatch: 2, inFlight: 2 });
  for (let item = 1; item <= 7; item++) void coalescer.submit(item);
  await turn();
  expect(sends.map(({ items }) => items)).toEqual([
    [1, 2],
    [3, 4],
  ]);

  nth(1).respond([0, 0]);
  await turns();
  expect(nth(2).items).toEqual([5, 6]);
  nth(0).respond([0, 0]);
  await turns();
  expect(nth(3).items).toEqual([7]);
});

test("an error in a result fails its own caller only", async () => {
  const { coalescer, nth } = byHand();
  const results = [1, 2].map((item) => coalescer.submit(item));
  await turn();
  nth(0).respond([new Error("bad row"), 20]);

  await expect(results[0]).rejects.toThrow("bad row");
  await expect(results[1]).resolves.toBe(20);
});

test("a send that rejects fails all of its items, and the next batch still goes out", async () => {
  const { coalescer, nth } = byHand();
  const error = new Error("connection lost");
  const failed = [1, 2].map((item) => coalescer.submit(item));
  await turn();
  const next = coalescer.submit(3);
  nth(0).fail(error);

  for (const result of failed) await expect(result).rejects.toBe(error);
  await turns();
  nth(1).respond([30]);
  await expect(next).resolves.toBe(30);
});

test("a send that throws or returns too few results fails its items", async () => {
  const thrower = new Coalescer<number, number>({
    maxBatch: 10,
    send: () => {
      throw new Error("at once");
    },
  });
  await expect(thrower.submit(1)).rejects.toThrow("at once");

  const short = new Coalescer<number, number>({ maxBatch: 10, send: () => Promise.resolve([]) });
  await expect(short.submit(1)).rejects.toThrow("A batch of 1 items got 0 results");
  await expect(short.idle()).resolves.toBeUndefined();
});

test("idle waits for everything queued and out", async () => {
  const { coalescer, nth } = byHand({ maxBatch: 1 });
  await coalescer.idle();

  void coalescer.submit(1);
  void coalescer.submit(2);
  let idle = false;
  const waiting = coalescer.idle().then(() => {
    idle = true;
  });
  await turns();
  nth(0).respond([10]);
  await turns();
  expect(idle).toBe(false);

  nth(1).respond([20]);
  await waiting;
  expect(idle).toBe(true);
});

test("in any order of events, every item gets its own result exactly once", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 3 }),
      async (scheduler, maxBatch, inFlight) => {
        const sent: number[] = [];
        const coalescer = new Coalescer<number, number>({
          maxBatch,
          inFlight,
          send: (items) => {
            sent.push(...items);
            return scheduler.schedule(Promise.resolve(items.map((item) => item * 10)));
          },
        });
        const items = Array.from({ length: 12 }, (_, item) => item);
        const results = items.map((item) =>
          scheduler.schedule(Promise.resolve(item)).then((due) => coalescer.submit(due)),
        );

        expect(await scheduler.waitFor(Promise.all(results))).toEqual(items.map((item) => item * 10));
        expect(sent.toSorted((a, b) => a - b)).toEqual(items);
        await coalescer.idle();
      },
    ),
  );
});

test("items share a send up to a total weight, and a heavier one goes alone", async () => {
  const sends: number[][] = [];
  const coalescer = new Coalescer<number, number>({
    maxBatch: 100,
    weigh: (item) => item,
    maxWeight: 10,
    send: async (items) => {
      sends.push(items);
      return Promise.resolve(items);
    },
  });
  await Promise.all([4, 6, 1, 50, 3, 3].map((item) => coalescer.submit(item)));

  expect(sends).toEqual([[4, 6], [1], [50], [3, 3]]);
});

test("a callback that throws does not affect the results of other items", async () => {
  const received: string[] = [];
  const errors: unknown[] = [];
  const coalescer = new Coalescer<number, string>({
    send: async (items) => await Promise.resolve(items.map((item) => `respond ${item}`)),
    maxBatch: 10,
    onCallbackError: (error) => errors.push(error),
  });
  for (const item of [1, 2, 3]) {
    coalescer.add(
      item,
      (respond) => {
        if (item === 2) throw new Error("a listener's");
        received.push(respond);
      },
      (_, failed) => received.push(`failed ${failed}`),
    );
  }
  await coalescer.idle();

  expect(received).toEqual(["respond 1", "respond 3"]);
  expect(errors).toEqual([new Error("a listener's")]);
});
