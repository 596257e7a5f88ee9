import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, typed, type HandlerContext } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { startWorker } from "../support/watch.ts";

const plain = defineJob("plain", { payload: typed<{ n: number }>(), key: ({ n }) => `n:${n}` });
const whole = defineJob("whole", { payload: typed<object>(), atomic: true });

test("a spread of the context has every property of the context", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const spread = gate<HandlerContext<{ n: number }>>();
  const rest = gate<object>();
  await startWorker(stint, {
    handlers: [
      handle(plain, (context) => {
        spread.open({ ...context });
        const { payload: _payload, ...others } = context;
        rest.open(others);
      }),
    ],
  });
  const { id } = await stint.enqueue(plain, { n: 7 }, { tenant: "acme", tags: ["a"] });

  const context = await spread.opened;
  expect(context).toMatchObject({
    id,
    kind: "plain",
    queue: "default",
    key: "n:7",
    attempt: 1,
    maxAttempts: 5,
    run: 1,
  });
  expect(context).toMatchObject({
    payload: { n: 7 },
    tenant: "acme",
    tags: ["a"],
    fence: { job: id, epoch: 1 },
  });
  expect(context.signal).toBeInstanceOf(AbortSignal);
  expect(context.createdAt).toBeInstanceOf(Date);
  expect(context.complete).toBeTypeOf("function");
  context.logger.debug({}, "a line");
  expect("tx" in context).toBe(false);
  expect(Object.keys(await rest.opened)).toEqual(expect.arrayContaining(["key", "signal", "logger"]));
});

test("a spread of an atomic kind's context has tx; that of another kind refuses it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const seen = gate<unknown>();
  const refused = gate<unknown>();
  await startWorker(stint, {
    handlers: [
      handle(whole, async (context) => {
        const copy = { ...context };
        seen.open((await copy.tx.query("select 1 as one")).rows);
      }),
      handle(plain, (context) => {
        try {
          void context.tx;
        } catch (error) {
          refused.open(error);
        }
      }),
    ],
  });
  await stint.enqueue(whole, {});
  await stint.enqueue(plain, { n: 1 });

  expect(await seen.opened).toEqual([{ one: 1 }]);
  expect(await refused.opened).toBeInstanceOf(InvalidOptionError);
});

test("get accepts the value that enqueue resolved with", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(plain, { n: 3 });

  expect(await stint.get(enqueued)).toMatchObject({ id: enqueued.id, payload: { n: 3 } });
  // @ts-expect-error neither a job nor an id
  await expect(stint.get({ kind: "plain" })).rejects.toBeInstanceOf(InvalidOptionError);
});
