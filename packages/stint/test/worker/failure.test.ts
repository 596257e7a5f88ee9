import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  cancel,
  defineJob,
  handle,
  PermanentError,
  RateLimitedError,
  silentLogger,
  snooze,
  steps,
  typed,
  type Handler,
  type Job,
  type Logger,
} from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { sharedWorker, startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>(), backoff: steps("1h"), attempts: 3 });
const numbered = defineJob("numbered", {
  payload: typed<{ n: number }>(),
  backoff: steps("1h"),
  attempts: 3,
});
const quick = defineJob("quick", { payload: typed<{ n: number }>(), backoff: steps("1s") });

/** What the attempt with each number runs. */
const runs: (() => unknown)[] = [];
const shared = sharedWorker(() => ({
  handlers: [
    handle(numbered, ({ payload }) => runs[payload.n]!() as undefined),
    handle(quick, ({ payload }) => runs[payload.n]!() as undefined),
  ],
}));

/** Runs one attempt of this handler, and returns the job afterwards. */
async function after(run: () => unknown, kind: typeof numbered | typeof quick = numbered): Promise<Job> {
  const { stint, seen } = shared();
  const { id } = await stint.enqueue(kind, { n: runs.push(run) - 1 });
  await seen("settled", (event) => event.id === id);
  return (await stint.get(id))!;
}

function fails(thrown: unknown): () => never {
  return () => {
    throw thrown;
  };
}

describe("an error thrown by a handler", () => {
  test("PermanentError: dead at once, with the reason", async () => {
    const job = await after(fails(new PermanentError("no such account")));
    expect(job).toMatchObject({
      state: "dead",
      attempts: 1,
      reason: "PermanentError: no such account",
      log: [{ outcome: "failed", error: { class: "PermanentError", message: "no such account" } }],
    });
  });

  test("RateLimitedError: waits at least as long as retryAfter", async () => {
    const job = await after(fails(new RateLimitedError({ retryAfter: "3h" })), quick);
    expect(job).toMatchObject({ state: "retrying", attempts: 1 });
    expect(job.runAt.getTime() - job.log[0]!.endedAt.getTime()).toBeGreaterThanOrEqual(3 * 3_600_000 - 1_000);
  });

  test("RateLimitedError with a delay shorter than the backoff: the backoff applies", async () => {
    const job = await after(fails(new RateLimitedError({ retryAfter: 10 })));
    expect(job.runAt.getTime() - job.log[0]!.endedAt.getTime()).toBeGreaterThanOrEqual(3_600_000 - 1_000);
  });

  test("any error: retried after the backoff, and dead when attempts are spent", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const { seen } = await startWorker(stint, {
      handlers: [handle(work, fails(new TypeError("boom")), { backoff: steps(0, 1) })],
    });
    const { id } = await stint.enqueue(work, {});
    await seen("settled", ({ state }) => state === "dead");

    const job = (await stint.get(id))!;
    expect(job).toMatchObject({ state: "dead", attempts: 3, epoch: 3 });
    expect(job.reason).toBe("failed 3 of 3 attempts: TypeError: boom");
    expect(job.log.map(({ epoch, outcome, error }) => [epoch, outcome, error?.class])).toEqual([
      [1, "failed", "TypeError"],
      [2, "failed", "TypeError"],
      [3, "failed", "TypeError"],
    ]);
  });

  test.each(unstorable())("%s: recorded", async (_, thrown, error) => {
    const job = await after(fails(thrown()));
    expect(job).toMatchObject({ state: "retrying", attempts: 1, log: [{ outcome: "failed", error }] });
  });
});

function unstorable(): [string, () => unknown, object][] {
  return [
    ["a string", () => "just text", { class: "string", message: "just text" }],
    ["undefined", () => undefined, { class: "undefined" }],
    ["null", () => null, { class: "null" }],
    ["a bigint", () => 10n, { class: "bigint", message: "10n" }],
    ["a message with NUL and a lone surrogate", () => new Error("a\0b\uD800c"), { class: "Error" }],
    ["a message of 100 MB", () => new Error("x".repeat(100_000_000)), { class: "Error", truncated: true }],
    [
      "a cause that leads back to itself",
      () => {
        const error = new Error("circular");
        error.cause = error;
        return error;
      },
      { class: "Error", message: "circular" },
    ],
    [
      "an error whose getters throw",
      () => Object.defineProperty(new Error("hidden"), "message", { get: fails(new Error("no")) }),
      { class: "Error" },
    ],
    [
      "an object with a bigint, a cycle and a toJSON that throws",
      () => {
        const odd: Record<string, unknown> = { big: 10n, toJSON: fails(new Error("no")) };
        odd["self"] = odd;
        return odd;
      },
      { class: "Object" },
    ],
  ];
}

describe("an outcome returned by a handler", () => {
  test("snooze: runs later, with no attempt spent", async () => {
    const job = await after(() => snooze("2h"));
    expect(job).toMatchObject({
      state: "scheduled",
      attempts: 0,
      interruptions: 1,
      log: [{ outcome: "snoozed" }],
    });
    expect(job.runAt.getTime() - job.log[0]!.endedAt.getTime()).toBeGreaterThanOrEqual(2 * 3_600_000 - 1_000);
  });

  test("cancel: ends as cancelled with its reason, not as dead", async () => {
    const job = await after(() => cancel("the account is closed"));
    expect(job).toMatchObject({
      state: "cancelled",
      reason: "the account is closed",
      log: [{ outcome: "cancelled" }],
    });
  });

  test.each<[string, () => unknown]>([
    ["a bigint", () => 1n],
    ["a function", () => () => undefined],
    ["NaN", () => ({ value: Number.NaN })],
    ["text with NUL", () => "a\0b"],
    [
      "a cycle",
      () => {
        const cycle: Record<string, unknown> = {};
        cycle["self"] = cycle;
        return cycle;
      },
    ],
    ["more than a result may hold", () => "x".repeat(2_000_000)],
    ["a class instance", () => new Response("ok")],
  ])("%s, which is no JSON, of a kind without a result: succeeded, with null", async (_, result) => {
    const job = await after(result);
    expect(job).toMatchObject({ state: "succeeded", attempts: 1, result: null });
  });
});

describe("a result", () => {
  test("that cannot be stored causes one warning per kind", async () => {
    const lines: string[] = [];
    const logger: Logger = { ...silentLogger, child: () => logger, warn: (_, line) => void lines.push(line) };
    const stint = (await freshSchema()).client({ logger });
    await startWorker(stint, { handlers: [handle(work, () => new Response("ok"))] });
    for (let n = 0; n < 3; n++) await stint.waitFor(await stint.enqueue(work, {}), { timeout: "60s" });

    expect(lines).toEqual([expect.stringContaining("work returns a value that cannot be stored")]);
  });

  const declared = {
    payload: typed<object>(),
    backoff: steps(0),
    attempts: 5,
    result: z.object({ n: z.number() }),
  };
  const plain = defineJob("plain", declared);
  const atomic = defineJob("atomic", { ...declared, atomic: true });
  const wrong = (): { n: number } => ({ n: "one" }) as never;

  test.each<[string, () => Handler, string]>([
    ["returned", () => handle(plain, wrong), "result.n does not fit its schema"],
    ["not returned", () => handle(plain, (() => undefined) as never), "result does not fit its schema"],
    ["returned by an atomic kind", () => handle(atomic, wrong), "result.n does not fit its schema"],
    ["given to complete", () => handle(plain, ({ complete }) => complete(wrong)), "result.n does not fit"],
    [
      "given to a complete whose failure is hidden",
      () => handle(plain, async ({ complete }) => await complete(wrong).catch(() => ({ n: 1 }))),
      "result.n does not fit its schema",
    ],
    [
      "that is an instance",
      () => handle(defineJob("plain", { ...declared, result: typed<unknown>() }), () => new Response("ok")),
      "is an instance of Response",
    ],
  ])("that is declared and is wrong (%s): dead at once, as a bug", async (_, make, rule) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    let runs = 0;
    const handler = make();
    const { seen } = await startWorker(stint, {
      middlewares: [async (__, next) => [runs++, await next()][1]],
      handlers: [handler],
    });
    const { id } = await stint.enqueue(handler.definition, {});
    await seen("settled", (event) => event.id === id);

    expect(await stint.get(id)).toMatchObject({ state: "dead", attempts: 1, log: [{ outcome: "failed" }] });
    expect((await stint.get(id))?.reason).toContain("invalid result: InvalidPayloadError");
    expect((await stint.get(id))?.reason).toContain(rule);
    expect(runs).toBe(1);
  });
});
