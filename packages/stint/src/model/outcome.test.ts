import * as fc from "fast-check";
import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { cancel, isOutcome, snooze } from "./outcome.ts";

test("a snooze carries its delay in milliseconds", () => {
  expect(snooze("5m")).toMatchObject({ type: "snooze", delayMs: 300_000 });
  expect(isOutcome(snooze(0))).toBe(true);
});

test("a snooze without a real delay is refused", () => {
  expect(() => snooze("soon")).toThrow(InvalidOptionError);
});

test("a cancel carries its reason, if there is one", () => {
  expect(cancel("user left")).toMatchObject({ type: "cancel", reason: "user left" });
  expect(cancel().reason).toBeUndefined();
  expect(isOutcome(cancel())).toBe(true);
});

test("an unstorable reason is made storable, so that a cancel never fails", () => {
  expect(cancel("line one\nline\0 two\ud800").reason).toBe("line one line\uFFFD two\uFFFD");
  expect(cancel("x".repeat(10_000)).reason).toHaveLength(512);
  expect(cancel("\n").reason).toBeUndefined();
  expect(() => cancel(5 as never)).toThrow(InvalidOptionError);
});

test("no JSON can be mistaken for an outcome, not even that of an outcome", () => {
  expect(isOutcome(JSON.parse(JSON.stringify(snooze("5m"))))).toBe(false);
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(isOutcome(value)).toBe(false);
    }),
  );
});

test("an object that inherits from an outcome is not one", () => {
  expect(isOutcome(Object.create(cancel()))).toBe(false);
});

test("a Proxy that throws is not an outcome", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(isOutcome(proxy)).toBe(false);
});
