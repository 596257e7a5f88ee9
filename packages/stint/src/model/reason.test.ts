import { expect, test } from "vitest";
import { exhaustedReason, permanentReason } from "./reason.ts";

test("a permanent error is labelled once, by its own name or by Stint's", () => {
  expect(permanentReason({ class: "PermanentError", message: "404" })).toBe("PermanentError: 404");
  expect(permanentReason({ class: "CardDeclined", message: "no" })).toBe("permanent error: CardDeclined: no");
});

test("a reason is one line of limited length", () => {
  const long = { class: "Error", message: `a\n\tb ${"x".repeat(10_000)}` };
  const reason = exhaustedReason(long, 2, 5);
  expect(reason).toMatch(/^failed 2 of 5 attempts: Error: a b x+$/);
  expect(reason.length).toBeLessThan(400);
});
