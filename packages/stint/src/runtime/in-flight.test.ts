import { expect, test } from "vitest";
import { InFlight } from "./in-flight.ts";

test("idle waits for every call, also for those that fail", async () => {
  const calls = new InFlight();
  await calls.idle();
  let fail: (error: Error) => void = () => undefined;
  let end: (value: number) => void = () => undefined;
  const failing = calls.run(async () => await new Promise<never>((_, reject) => (fail = reject)));
  const ending = calls.run(async () => await new Promise<number>((resolve) => (end = resolve)));
  let idle = false;
  const waiting = calls.idle().then(() => (idle = true));
  fail(new Error("refused"));
  await expect(failing).rejects.toThrow("refused");
  expect(idle).toBe(false);
  end(7);
  expect(await ending).toBe(7);
  await waiting;
});
