import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { checkNameOrPattern, matchesPattern, toLike } from "./name-pattern.ts";
import { QueueMap } from "./queue-pattern.ts";

test.each([
  ["tenant-*", "tenant-7", true],
  ["tenant-*", "tenant-", true],
  ["tenant-*", "tenant", false],
  ["tenant-*", "xtenant-7", false],
  ["*", "anything", true],
  ["*-mail", "eu-mail", true],
  ["*-mail", "eu-mails", false],
  ["a*a", "a", false],
  ["a*a", "aa", true],
  ["a*b*c", "a-b-c", true],
  ["a*b*c", "abbc", true],
  ["a*b*c", "acb", false],
  ["a*bc*c", "abcc", true],
  ["a*bc*c", "abc", false],
  ["a.b*", "axb", false],
  ["plain", "plain", true],
  ["plain", "plainer", false],
])("the pattern %s against the queue %s: %s", (pattern, queue, expected) => {
  expect(matchesPattern(pattern, queue)).toBe(expected);
});

test("LIKE matches every character but the star literally", () => {
  expect(toLike("a_b%c\\*")).toBe("a\\_b\\%c\\\\%");
});

test("the exact name wins, then the longest pattern, then the one given first", () => {
  const map = new QueueMap([
    ["*", "every"],
    ["tenant-*", "tenants"],
    ["*-tenant", "other tenants"],
    ["tenant-eu-*", "european"],
    ["tenant-eu-1", "first"],
  ]);
  const of = (...queues: string[]): unknown => queues.map((queue) => map.get(queue));

  expect(of("tenant-eu-1", "tenant-eu-2", "tenant-us", "tenant-tenant", "mail")).toEqual([
    "first",
    "european",
    "tenants",
    "tenants",
    "every",
  ]);
  expect([map.names, map.patterns.length]).toEqual([["tenant-eu-1"], 4]);
});

test("an unmatched queue has no value, even if named like an Object property", () => {
  expect(new QueueMap([["a-*", 1]]).get("constructor")).toBeUndefined();
});

test.each([
  ["", "must be 1 to 128 characters"],
  ["tenant **", "must be a pattern of 1 to 128 characters"],
  ["a**", "must not contain **"],
  ["-*", "beginning with a letter, a digit or *"],
  ["tenant-?*", "must be a pattern"],
  [`${"x".repeat(128)}*`, "must be a pattern of 1 to 128"],
  [7, "must be 1 to 128 characters"],
])("%j is neither the name of a queue nor a pattern", (value, message) => {
  expect(() => checkNameOrPattern(value, "worker.pools")).toThrow(InvalidOptionError);
  expect(() => checkNameOrPattern(value, "worker.pools")).toThrow(message);
});
