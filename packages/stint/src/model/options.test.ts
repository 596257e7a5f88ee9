import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import {
  refuseUnknownKeys,
  requireBoolean,
  requireDate,
  requireFunction,
  requireInteger,
  requireOneOf,
} from "./options.ts";

test("known keys pass", () => {
  expect(() => refuseUnknownKeys("worker", { slots: 1 }, ["slots", "lease"])).not.toThrow();
});

test("a misspelt key is refused with a suggestion", () => {
  expect(() => refuseUnknownKeys("worker", { slotz: 1 }, ["slots", "lease"])).toThrow(
    'worker.slotz: is not an option; did you mean "slots"?',
  );
});

test("a key unlike any option is refused with the list of options", () => {
  expect(() => refuseUnknownKeys("worker", { banana: 1 }, ["slots", "lease"])).toThrow(
    "worker.banana: is not an option. worker has slots, lease",
  );
});

test.each([
  ["startAfter", "`delay`"],
  ["singletonKey", "`dedupe`"],
  ["jobId", "`id`"],
  ["concurrency", "`pools`"],
  ["retries", "`attempts`"],
])("the word %s of another queue is refused with what Stint calls it", (word, ours) => {
  const options = { [word]: 1 };
  expect(() => refuseUnknownKeys("enqueue", options, ["id", "delay", "attempts"])).toThrow(
    new RegExp(`^enqueue\\.${word}: is not an option\\. Stint calls this .*${ours}`),
  );
  expect(() => refuseUnknownKeys("enqueue", options, [word])).not.toThrow();
});

test("a hostile key is shown harmlessly", () => {
  expect(() => refuseUnknownKeys("worker", { "\u001b[2J\n": 1 }, ["slots"])).toThrow(
    String.raw`worker["\u001b[2J\n"]`,
  );
});

test.each([null, undefined, 5, "slots", []])("options given as %j are refused", (input) => {
  expect(() => refuseUnknownKeys("worker", input as never, ["slots"])).toThrow(
    /^worker: must be an object of options, got /,
  );
});

test("an integer within its limits passes", () => {
  expect(requireInteger("worker.slots", 1, { min: 1, max: 1000 })).toBe(1);
  expect(requireInteger("worker.slots", 1000, { min: 1, max: 1000 })).toBe(1000);
  expect(requireInteger("priority", -5)).toBe(-5);
});

test.each(["x", "5", 0, 1001, 1.5, Number.NaN, Number.POSITIVE_INFINITY, null, 5n, 2 ** 53])(
  "%s is not an integer from 1 to 1000",
  (value) => {
    expect(() => requireInteger("worker.slots", value, { min: 1, max: 1000 })).toThrow(InvalidOptionError);
  },
);

test("the message names the option, the rule and the value", () => {
  expect(() => requireInteger("worker.slots", "x", { min: 1, max: 1000 })).toThrow(
    'worker.slots: must be an integer from 1 to 1000, got "x"',
  );
  expect(() => requireInteger("a", 0, { min: 1 })).toThrow("a: must be an integer of at least 1, got 0");
  expect(() => requireInteger("a", 2, { max: 1 })).toThrow("a: must be an integer of at most 1, got 2");
  expect(() => requireInteger("a", {})).toThrow("a: must be an integer, got {}");
});

test("one of the allowed words passes, another is refused with a suggestion", () => {
  expect(requireOneOf("wake", "none", ["notify", "none"])).toBe("none");
  expect(() => requireOneOf("wake", "notfy", ["notify", "none"])).toThrow(
    'wake: must be "notify" or "none", got "notfy"; did you mean "notify"?',
  );
  expect(() => requireOneOf("wake", 5, ["notify", "none"])).toThrow(
    'wake: must be "notify" or "none", got 5',
  );
});

test("only true and false are booleans", () => {
  expect(requireBoolean("atomic", false)).toBe(false);
  expect(() => requireBoolean("atomic", "false")).toThrow('atomic: must be true or false, got "false"');
});

test("only a function is a function", () => {
  const handler = (n: number) => n + 1;
  expect(requireFunction("handler", handler)(1)).toBe(2);
  expect(() => requireFunction("handler", {})).toThrow("handler: must be a function, got {}");
});

test("a Date must be valid", () => {
  const moment = new Date(0);
  expect(requireDate("runAt", moment)).toBe(moment);
  expect(() => requireDate("runAt", new Date("tomorrow"))).toThrow(
    "runAt: must be a valid Date, got an invalid Date",
  );
  expect(() => requireDate("runAt", "2030-01-01")).toThrow('runAt: must be a valid Date, got "2030-01-01"');
  expect(() => requireDate("runAt", Object.create(Date.prototype))).toThrow(InvalidOptionError);
});
