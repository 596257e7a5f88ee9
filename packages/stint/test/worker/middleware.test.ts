import { AsyncLocalStorage } from "node:async_hooks";
import { expect, test } from "vitest";
import {
  defineJob,
  handle,
  InvalidOptionError,
  isSuspended,
  PermanentError,
  steps,
  typed,
  type Middleware,
} from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", {
  payload: typed<{ n: number }>(),
  result: typed<unknown>(),
  backoff: steps("1h"),
});

test("middlewares wrap the handler, the first outermost, and see its result", async () => {
  const stint = (await freshSchema()).client();
  const order: string[] = [];
  const layer =
    (name: string): Middleware =>
    async ({ kind }, next) => {
      order.push(`${name} before ${kind}`);
      const result = await next();
      order.push(`${name} after ${String(result)}`);
      return `${String(result)}+${name}`;
    };
  await startWorker(stint, {
    middlewares: [layer("outer"), layer("inner")],
    handlers: [handle(work, () => (order.push("handler"), "done"))],
  });

  expect(await stint.waitFor(await stint.enqueue(work, { n: 1 }), { timeout: "60s" })).toBe(
    "done+inner+outer",
  );
  expect(order).toEqual([
    "outer before work",
    "inner before work",
    "handler",
    "inner after done",
    "outer after done+inner",
  ]);
});

test("each attempt has its own AsyncLocalStorage of a middleware, across awaits", async () => {
  const stint = (await freshSchema()).client();
  const store = new AsyncLocalStorage<{ n: number }>();
  await startWorker(stint, {
    middlewares: [async ({ payload }, next) => await store.run(payload as { n: number }, next)],
    handlers: [
      handle(work, async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return store.getStore()?.n;
      }),
    ],
  });
  const jobs = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => stint.enqueue(work, { n })));

  const results = await Promise.all(jobs.map((job) => stint.waitFor(job, { timeout: "60s" })));
  expect(results).toEqual([1, 2, 3, 4, 5, 6]);
});

test("a middleware that throws fails the attempt, before the handler or after it", async () => {
  const stint = (await freshSchema()).client();
  const ran: number[] = [];
  const { seen } = await startWorker(stint, {
    middlewares: [
      async ({ payload }, next) => {
        if ((payload as { n: number }).n === 1) throw new Error("not let in");
        await next();
        throw new Error("not let out");
      },
    ],
    handlers: [handle(work, ({ payload }) => void ran.push(payload.n))],
  });
  const [one, two] = await Promise.all([1, 2].map((n) => stint.enqueue(work, { n })));
  await seen("settled", ({ id }) => id === one!.id);
  await seen("settled", ({ id }) => id === two!.id);

  expect(ran).toEqual([2]);
  expect(await stint.get(one!.id)).toMatchObject({
    state: "retrying",
    log: [{ error: { message: "not let in" } }],
  });
  expect(await stint.get(two!.id)).toMatchObject({
    state: "retrying",
    log: [{ error: { message: "not let out" } }],
  });
});

test("options of job, handler, definition and worker override each other in order", async () => {
  const stint = (await freshSchema()).client();
  const plain = defineJob("plain", { payload: typed<object>() });
  const defined = defineJob("defined", { payload: typed<object>(), attempts: 4 });
  const handled = defineJob("handled", { payload: typed<object>(), attempts: 5 });
  const seenByHandler = new Map<string, number>();
  const { seen, all } = await startWorker(stint, {
    attempts: 2,
    backoff: steps(0),
    handlers: [plain, defined, handled].map((job) =>
      handle(
        job,
        ({ id, maxAttempts }) => {
          seenByHandler.set(id, maxAttempts);
          throw new Error("broken");
        },
        job === handled ? { attempts: 3 } : {},
      ),
    ),
  });
  const jobs = await Promise.all([
    stint.enqueue(plain, {}),
    stint.enqueue(defined, {}),
    stint.enqueue(handled, {}),
    stint.enqueue(handled, {}, { attempts: 1 }),
  ]);
  for (const { id } of jobs) await seen("settled", (event) => event.id === id && event.state === "dead");

  const attempts = jobs.map(({ id }) => all("settled").filter((event) => event.id === id).length);
  expect(attempts).toEqual([2, 4, 3, 1]);
  expect(jobs.map(({ id }) => seenByHandler.get(id))).toEqual(attempts);
});

test("values passed to next become typed properties of the context", async () => {
  const stint = (await freshSchema()).client();
  const withTenant: Middleware<{ tenantDb: string }> = async ({ tenant }, next) =>
    await next({ tenantDb: `db of ${tenant}` });
  const withUser: Middleware<{ user: { name: string } }> = async (context, next) => {
    expect((context as { tenantDb?: string }).tenantDb).toBe("db of acme");
    return await next({ user: { name: "ada" } });
  };
  await startWorker(stint, {
    handlers: [
      handle(work, { middlewares: [withTenant, withUser] }, ({ payload, tenantDb, user }) => {
        const text: string = tenantDb;
        return `${payload.n} ${text} ${user.name}`;
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 }, { tenant: "acme" });
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe("1 db of acme ada");
});

test("a middleware of the worker and the kind runs once, the worker's first", async () => {
  const stint = (await freshSchema()).client();
  const order: string[] = [];
  const named =
    (name: string): Middleware =>
    async (_, next) => {
      order.push(name);
      return await next();
    };
  const shared = named("shared");
  await startWorker(stint, {
    middlewares: [shared],
    handlers: [handle(work, { middlewares: [named("own"), shared] }, () => "done")],
  });
  await stint.waitFor(await stint.enqueue(work, { n: 1 }), { timeout: "60s" });
  expect(order).toEqual(["shared", "own"]);
});

test.each([
  [{ payload: 1 }, 'cannot replace "payload"'],
  [{ signal: 1 }, 'cannot replace "signal"'],
  [5, "takes an object"],
  [["a"], "takes an object"],
])("next(%j) is refused, and the attempt fails", async (values, text) => {
  const stint = (await freshSchema()).client();
  const ran: unknown[] = [];
  const hostile: Middleware = async (_, next) => await next(values as never);
  const { seen } = await startWorker(stint, {
    middlewares: [hostile],
    handlers: [handle(work, (context) => (ran.push(context.payload), "done"))],
  });
  await stint.enqueue(work, { n: 1 });
  expect(String((await seen("failed")).error)).toContain(text);
  expect(ran).toEqual([]);
});

test.each([[5], [["x"]]])("handle refuses middlewares: %j", (middlewares) => {
  const make = (): unknown => handle(work, { middlewares: middlewares as never }, () => "done");
  expect(make).toThrow(InvalidOptionError);
});

test("a middleware can distinguish a suspended handler from a failed one", async () => {
  const stint = (await freshSchema()).client();
  const seen: string[] = [];
  const watch: Middleware = async (_, next) => {
    try {
      const result = await next();
      seen.push(`returned ${String(result)}`);
      return result;
    } catch (error) {
      if (isSuspended(error)) seen.push(error.signal === undefined ? "sleeps" : `waits for ${error.signal}`);
      else seen.push(`failed: ${(error as Error).message}`);
      throw error;
    } finally {
      seen.push("closed");
    }
  };
  await startWorker(stint, {
    middlewares: [watch],
    handlers: [
      handle(work, async ({ payload: { n }, sleep, waitForSignal }) => {
        await sleep(1);
        if (n === 2) throw new PermanentError("broken");
        return await waitForSignal("go");
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 });
  await until(() => seen.includes("waits for go"));
  await stint.signal(job, "go", "on");
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe("on");
  expect(seen).toEqual(["sleeps", "closed", "waits for go", "closed", "returned on", "closed"]);

  seen.length = 0;
  const broken = await stint.enqueue(work, { n: 2 });
  await expect(stint.waitFor(broken, { timeout: "60s" })).rejects.toThrow("broken");
  expect(seen).toEqual(["sleeps", "closed", "failed: broken", "closed"]);
});

test.each<[string, Middleware]>([
  ["hides the error", async (_, next) => await next().catch(() => "hidden")],
  [
    "throws another error",
    async (_, next) =>
      await next().catch((error: unknown) => {
        if (isSuspended(error)) throw new PermanentError("wrapped", { cause: error });
        throw error;
      }),
  ],
])("a handler sleeps on although a middleware %s", async (_, middleware) => {
  const stint = (await freshSchema()).client();
  let runs = 0;
  await startWorker(stint, {
    middlewares: [middleware],
    handlers: [
      handle(work, async ({ sleep }) => {
        runs += 1;
        await sleep(1);
        return "slept";
      }),
    ],
  });
  const job = await stint.enqueue(work, { n: 1 });
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe("slept");
  expect(runs).toBe(2);
  expect(await stint.get(job)).toMatchObject({ attempts: 1, interruptions: 1 });
});
