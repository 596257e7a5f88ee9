import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  defineJob,
  entry,
  handle,
  PermanentError,
  RateLimitedError,
  silentLogger,
  steps,
  typed,
  type Logger,
  type Middleware,
} from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { hostileValue, revokedProxy, trappedProxy } from "../support/hostile-values.ts";
import { sharedWorker, startWorker } from "../support/watch.ts";
import { inLab } from "../support/lab.ts";

const work = defineJob("work", { payload: typed<{ n: number }>(), backoff: steps("1h"), attempts: 3 });

const refuse = (): never => {
  throw new Error("do not touch");
};

function rateLimitedWith(get: () => unknown): RateLimitedError {
  return Object.defineProperty(new RateLimitedError({ retryAfter: 1 }), "retryAfter", { get });
}

const thrown: Record<string, () => unknown> = {
  "a revoked proxy": revokedProxy,
  "a getPrototypeOf trap": () => trappedProxy(["getPrototypeOf"]),
  "a proxy whose every trap throws a revoked proxy": () => trappedProxy(undefined, revokedProxy),
  "a RateLimitedError whose retryAfter throws": () => rateLimitedWith(refuse),
  "a RateLimitedError whose retryAfter is a revoked proxy": () => rateLimitedWith(revokedProxy),
  "a RateLimitedError that asks for 200,000 years": () =>
    new RateLimitedError({ retryAfter: new Date(8_000_000_000_000_000) }),
  "a PermanentError whose message throws": () =>
    Object.defineProperty(new PermanentError("no"), "message", { get: refuse }),
  "an error whose cause is a revoked proxy": () => new Error("outer", { cause: revokedProxy() }),
};

const doze = defineJob("doze", { payload: typed<null>() });

const makers = Object.values(thrown);
const shared = sharedWorker(() => ({
  pools: { default: 1 },
  handlers: [
    handle(work, ({ payload }) => {
      const make = makers[payload.n];
      if (make !== undefined) throw make();
    }),
    handle(doze, async ({ sleep }) => {
      await sleep("1h").catch(() => undefined);
      throw revokedProxy();
    }),
  ],
}));

test.each(Object.entries(thrown))("a handler that throws %s leaves a recorded failure", async (_, make) => {
  const { stint, worker, seen } = shared();
  const { id } = await stint.enqueue(work, { n: makers.indexOf(make) });
  const event = await seen("settled", (settled) => settled.id === id);

  expect(event.outcome).toBe("failed");
  expect(await stint.get(id)).toMatchObject({ attempts: 1, log: [{ outcome: "failed" }] });
  // The only slot is free again.
  await stint.waitFor(await stint.enqueue(work, { n: -1 }), { timeout: "60s" });
  await expect.poll(() => worker.running, { timeout: 60_000 }).toBe(0);
});

test("a handler that sleeps and then throws a revoked proxy is suspended", async () => {
  const { stint, seen } = shared();
  const { id } = await stint.enqueue(doze, null);
  await seen("settled", (settled) => settled.id === id);
  expect(await stint.get(id)).toMatchObject({ state: "parked", parkReason: "sleep" });
});

test("an attempt is decided, whatever its handler or middleware does", async () => {
  const stint = (await freshSchema()).client();
  type Action = {
    how: "throw" | "reject" | "return" | "resolve";
    where: "handler" | "before" | "after";
    what: () => unknown;
  };
  const actions: Action[] = [];
  const act = ({ how, what }: Action): unknown => {
    if (how === "throw") throw what();
    if (how === "reject") return Promise.reject(what());
    return how === "resolve" ? Promise.resolve(what()) : what();
  };
  const actionOf = (payload: unknown): Action => actions[(payload as { n: number }).n]!;
  const { seen } = await startWorker(stint, {
    pools: { default: 4 },
    middlewares: [
      (({ payload }, next) => {
        const action = actionOf(payload);
        if (action.where === "before") return act(action);
        if (action.where === "after") return next().then(() => act(action));
        return next();
      }) as Middleware,
    ],
    handlers: [
      handle(work, ({ payload }) =>
        actionOf(payload).where === "handler" ? act(actionOf(payload)) : undefined,
      ),
    ],
  });

  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          how: fc.constantFrom("throw", "reject", "return", "resolve"),
          where: fc.constantFrom("handler", "before", "after"),
          what: hostileValue,
        }),
        { minLength: 1, maxLength: 30 },
      ),
      async (some) => {
        const first = actions.length;
        actions.push(...some);
        for (let n = first; n < actions.length; n++) {
          const { id } = await stint.enqueue(work, { n });
          await seen("settled", (settled) => settled.id === id);
          expect((await stint.get(id))?.state).not.toBe("running");
        }
      },
    ),
    { numRuns: inLab ? 100 : 6 },
  );
}, 120_000);

test("a handler that throws a hostile value after complete() still succeeded", async () => {
  const stint = (await freshSchema()).client({ logger: touchyLogger() });
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(work, async ({ complete }) => {
        await complete(() => undefined);
        throw revokedProxy();
      }),
    ],
  });
  const { id } = await stint.enqueue(work, { n: 1 });

  expect(await seen("settled", (settled) => settled.id === id)).toMatchObject({ outcome: "succeeded" });
});

/** Reads what it is given, as a logger with serializers does, and so throws what that throws. */
function touchyLogger(): Logger {
  const touch = (fields: object): void =>
    void JSON.stringify(fields, (_, value: unknown) => [value instanceof Error, value][1]);
  return {
    debug: touch,
    info: touch,
    warn: touch,
    error: touch,
    child: touchyLogger,
    isLevelEnabled: () => true,
  };
}

test("a logger that throws at every line loses no job, slot or batch", async () => {
  const hostile: Logger = {
    debug: refuse,
    info: refuse,
    warn: refuse,
    error: refuse,
    child: () => hostile,
    isLevelEnabled: refuse,
  };
  const stint = (await freshSchema()).client({ logger: hostile });
  const { all, seen } = await startWorker(stint, {
    pools: { default: 1 },
    handlers: [
      handle(work, ({ payload }) => {
        if (payload.n % 2 === 1) throw new Error("odd");
      }),
    ],
  });
  const jobs = await Promise.all(Array.from({ length: 10 }, (_, n) => stint.enqueue(work, { n })));
  for (const { id } of jobs) await seen("settled", (settled) => settled.id === id);

  expect(all("settled").filter(({ outcome }) => outcome === "failed")).toHaveLength(5);
});

test("a logger whose child() throws is replaced by its parent", async () => {
  const lines: string[] = [];
  const orphan: Logger = { ...silentLogger, warn: (_, message) => void lines.push(message), child: refuse };
  const stint = (await freshSchema()).client({ logger: orphan });
  const { seen } = await startWorker(stint, { handlers: [handle(work, refuse)] });
  await stint.enqueue(work, { n: 1 });
  await seen("settled");

  expect(lines.join()).toContain("work failed");
});

test("a middleware that calls next() twice runs the handler once", async () => {
  const stint = (await freshSchema()).client();
  let runs = 0;
  const { seen } = await startWorker(stint, {
    middlewares: [async (_, next) => [await next(), await next()]],
    handlers: [handle(work, () => void runs++)],
  });
  const { id } = await stint.enqueue(work, { n: 1 });
  await seen("settled", (settled) => settled.id === id);

  expect(runs).toBe(1);
  expect((await stint.get(id))?.log[0]?.error?.message).toContain("next");
});

test("a handler's failure is recorded even if middleware does not await next()", async () => {
  const stint = (await freshSchema()).client();
  const { seen } = await startWorker(stint, {
    middlewares: [async (_, next) => void next()],
    handlers: [
      handle(work, async () => {
        await new Promise((resolve) => setImmediate(resolve));
        throw new Error("late");
      }),
    ],
  });
  const { id } = await stint.enqueue(work, { n: 1 });

  expect(await seen("settled", (settled) => settled.id === id)).toMatchObject({
    outcome: "failed",
    error: { message: "late" },
  });
});

test("a handler whose thenable never settles times out like any other", async () => {
  const stint = (await freshSchema()).client();
  const { seen } = await startWorker(stint, {
    abort: 10,
    // oxlint-disable-next-line unicorn/no-thenable
    handlers: [handle(work, () => ({ then: () => undefined }), { timeout: 100 })],
  });
  const { id } = await stint.enqueue(work, { n: 1 });

  expect(await seen("settled", (settled) => settled.id === id)).toMatchObject({ outcome: "timed-out" });
});

test("thousands of handlers that end without a promise do not overflow the stack", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = 3_000;
  let runs = 0;
  const { worker } = await startWorker(stint, {
    pools: { default: jobs },
    handlers: [
      handle(work, ({ payload }) => {
        runs += 1;
        if (payload.n % 2 === 1) throw new PermanentError("at once");
      }),
    ],
  });
  const ended = { succeeded: 0, failed: 0 };
  const allEnded = new Promise<void>((resolve) => {
    worker.on("settled", ({ outcome }) => {
      ended[outcome as keyof typeof ended] += 1;
      if (ended.succeeded + ended.failed === jobs) resolve();
    });
  });
  await stint.enqueueMany(Array.from({ length: jobs }, (_, n) => entry(work, { n })));
  await allEnded;

  expect(runs).toBe(jobs);
  expect(ended).toEqual({ succeeded: jobs / 2, failed: jobs / 2 });
});
