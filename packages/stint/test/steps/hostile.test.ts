import { expect, test } from "vitest";
import { defineJob, handle, typed, type HandlerContext } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { sharedWorker, startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<string>(), result: typed<unknown>(), attempts: 1 });

type Attack = (context: HandlerContext<string>) => unknown;

const attacks: [string, Attack][] = [
  ["sleep(-1)", ({ sleep }) => sleep(-1)],
  ["sleep(NaN)", ({ sleep }) => sleep(Number.NaN)],
  ["sleep(Infinity)", ({ sleep }) => sleep(Number.POSITIVE_INFINITY)],
  ["sleep('soon')", ({ sleep }) => sleep("soon")],
  ["sleep(1e18)", ({ sleep }) => sleep(1e18)],
  ["sleep('99999999d')", ({ sleep }) => sleep("99999999d")],
  ["sleep(undefined)", ({ sleep }) => sleep(undefined as never)],
  ["sleep(invalid date)", ({ sleep }) => sleep(new Date(Number.NaN))],
  ["sleep(year 275760)", ({ sleep }) => sleep(new Date(8.64e15))],
  ["waitForSignal('')", ({ waitForSignal }) => waitForSignal("")],
  ["waitForSignal(null)", ({ waitForSignal }) => waitForSignal(null as never)],
  ["waitForSignal of 200 characters", ({ waitForSignal }) => waitForSignal("x".repeat(200))],
  ["waitForSignal, negative timeout", ({ waitForSignal }) => waitForSignal("go", { timeout: -5 })],
  ["waitForSignal, unknown option", ({ waitForSignal }) => waitForSignal("go", { timeOut: 5 } as never)],
  ["waitForSignal, no schema", ({ waitForSignal }) => waitForSignal("go", { schema: {} as never })],
  ["waitForSignal, null options", ({ waitForSignal }) => waitForSignal("go", null as never)],
  ["step without a name", ({ step }) => step("", () => 1)],
  ["step named by a number", ({ step }) => step(5 as never, () => 1)],
  ["step of 300 characters", ({ step }) => step("x".repeat(300), () => 1)],
  ["step with a NUL", ({ step }) => step("a\0b", () => 1)],
  ["step without a function", ({ step }) => step("a", "b" as never)],
  ["step with a function as result", ({ step }) => step("a", () => () => 1)],
  ["step with a bigint", ({ step }) => step("a", () => 10n)],
  ["step of 10 MB", ({ step }) => step("a", () => "x".repeat(10_000_000))],
  ["step with a lone surrogate name", ({ step }) => step("\ud800", () => 1)],
  ["step inside a step", ({ step }) => step("a", () => step("b", () => 1))],
  ["sleep inside a step", ({ step, sleep }) => step("a", () => sleep(1))],
  [
    "a step name used twice",
    async ({ step }) => {
      await step("a", () => 1);
      await step("a", () => 2);
    },
  ],
  ["progress(NaN)", ({ progress }) => progress(Number.NaN)],
  ["progress(2)", ({ progress }) => progress(2)],
  ["progress('half')", ({ progress }) => progress("half" as never)],
  ["progress with an object as note", ({ progress }) => progress(0.5, {} as never)],
  ["checkpoint of a function", ({ checkpoint }) => checkpoint(() => 1)],
  ["checkpoint of 10 MB", ({ checkpoint }) => checkpoint("x".repeat(10_000_000))],
  ["checkpoint of a circle", ({ checkpoint }) => checkpoint(circle())],
  ["log of an object", ({ log }) => log({} as never)],
  ["extend(-1)", ({ extend }) => extend(-1)],
  ["extend without a bound", ({ extend }) => extend("1h")],
  ["extend('')", ({ extend }) => extend("")],
  ["again without a time", ({ again }) => again({} as never)],
  ["again with both times", ({ again }) => again({ in: 1, at: new Date() } as never)],
  ["again(null)", ({ again }) => again(null as never)],
];

const shared = sharedWorker(() => ({
  handlers: [
    handle(work, async (context) => {
      contexts.push(context);
      const attack = attacks.find(([name]) => name === context.payload)?.[1];
      try {
        await attack?.(context);
      } catch (error) {
        thrown.set(context.payload, error);
      }
      return "ended";
    }),
  ],
}));
const thrown = new Map<string, unknown>();
const contexts: HandlerContext<string>[] = [];

test.each(attacks)("%s in a handler is refused with a typed error", async (name) => {
  const { stint } = shared();
  const job = await stint.enqueue(work, name);
  await stint.waitFor(job, { timeout: "60s" }).catch(() => undefined);
  expect(thrown.get(name)).toMatchObject({
    code: expect.stringMatching(/^(INVALID_OPTION|INVALID_PAYLOAD)$/) as string,
  });
});

test("steps, waits and reports after the end of their handler are refused", async () => {
  const { stint } = shared();
  const job = await stint.enqueue(work, "nothing");
  await stint.waitFor(job, { timeout: "60s" });
  const late = contexts.find(({ id }) => id === job.id)!;
  const calls: (() => unknown)[] = [
    () => late.step("late", () => 1),
    () => late.sleep(1),
    () => late.waitForSignal("go"),
    () => late.checkpoint(1),
    () => late.extend("1m"),
    () => late.again({ in: "1h" }),
  ];
  for (const call of calls) await expect((async () => await call())()).rejects.toHaveProperty("code");
  expect(await stint.get(job)).toMatchObject({ state: "succeeded", result: "ended" });
  expect(await stint.steps(job)).toMatchObject({ steps: [] });
});

test("signals that cannot be are refused with a typed error, and nothing is sent", async () => {
  const { stint, fresh } = shared();
  const waiting = { delay: "1h" } as const;
  const declared = defineJob("declared", { queue: "other", payload: typed<null>(), signals: ["paid"] });
  await startWorker(stint, { pools: { other: 1 }, handlers: [handle(declared, () => undefined)] });
  const [one, two, job, ended] = await Promise.all([
    stint.enqueue(work, "a", { ...waiting, key: "twice" }),
    stint.enqueue(work, "b", { ...waiting, key: "twice" }),
    stint.enqueue(declared, null, waiting),
    stint.enqueue(work, "c", waiting),
  ]);
  await stint.cancel(ended.id);
  const send = stint.signal.bind(stint) as (...args: unknown[]) => Promise<string>;
  const refused: [args: unknown[], code: string][] = [
    [["twice", "go"], "INVALID_OPTION"],
    [[ended, "go"], "WRONG_STATE"],
    [[newId(), "go"], "JOB_NOT_FOUND"],
    [["no such key", "go"], "JOB_NOT_FOUND"],
    [[job, "payed"], "INVALID_OPTION"],
    [[one, ""], "INVALID_OPTION"],
    [[one, "two words"], "INVALID_OPTION"],
    [[one, null], "INVALID_OPTION"],
    [[null, "go"], "INVALID_OPTION"],
    [[{}, "go"], "INVALID_OPTION"],
    [[{ id: "x" }, "go"], "INVALID_OPTION"],
    [[{ key: "" }, "go"], "INVALID_OPTION"],
    [[{ key: "twice", kindd: "work" }, "go"], "INVALID_OPTION"],
    [["", "go"], "INVALID_OPTION"],
    [["x".repeat(10_000), "go"], "INVALID_OPTION"],
    [[one, "go", "x".repeat(10_000_000)], "INVALID_PAYLOAD"],
    [[one, "go", () => 1], "INVALID_PAYLOAD"],
    [[one, "go", circle()], "INVALID_PAYLOAD"],
    [[one, "go", 1, { id: "x" }], "INVALID_OPTION"],
    [[one, "go", 1, { idd: newId() }], "INVALID_OPTION"],
    [[one, "go", 1, null], "INVALID_OPTION"],
  ];
  for (const [args, code] of refused) await expect(send(...args)).rejects.toMatchObject({ code });
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
  expect(await send({ key: "twice", kind: "work" }, "go").catch((error: unknown) => error)).toMatchObject({
    code: "INVALID_OPTION",
  });
  expect(await send(two, "go")).toBe(two.id);
});

function circle(): unknown {
  const value: Record<string, unknown> = {};
  value["self"] = value;
  return value;
}
