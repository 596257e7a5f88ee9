import { expect, test } from "vitest";
import { asCommand, printSearch, readSearch, suggest } from "../ui/screens/jobs/search-words.ts";

const known = { kind: ["read-map", "read-page", "send-receipt"], state: ["dead", "ready"], queue: ["mail"] };

/** The qualifiers that were given. */
function read(text: string): Record<string, string> {
  return JSON.parse(JSON.stringify(readSearch(text, known).values)) as Record<string, string>;
}

test("a line of qualifiers is a filter, in any order, with quotes around spaces", () => {
  expect(read('kind:send-receipt  tag:x state:dead,ready error:"no such \\"page\\""')).toEqual({
    kind: "send-receipt",
    tag: "x",
    state: "dead,ready",
    error: 'no such "page"',
  });
  expect(read("KIND:send-receipt key:receipt:42 tenant:acme")).toEqual({
    kind: "send-receipt",
    key: "receipt:42",
    tenant: "acme",
  });
});

test("words without a known qualifier are searched for in errors", () => {
  expect(read("connect ECONNREFUSED")).toEqual({ error: "connect ECONNREFUSED" });
  expect(read("queue:mail http://bank")).toEqual({ queue: "mail", error: "http://bank" });
  expect(read("kind: ")).toEqual({});
});

test("a star in a kind or queue is a pattern, and in a state completes the name", () => {
  expect(read("kind:read*")).toEqual({ kind: "read*" });
  expect(readSearch("kind:read*", known).problem).toBeUndefined();
  expect(asCommand({ kind: "read*" })).toBe("npx stint jobs list --kind 'read*'");
  expect(read("queue:tenant-*")).toEqual({ queue: "tenant-*" });
  expect(readSearch("queue:tenant-*", known).problem).toBeUndefined();
  expect(read("state:de*")).toEqual({ state: "dead" });
  expect(readSearch("state:zz*", known).problem).toBe("No state begins with zz.");
  expect(readSearch("state:re*", { state: ["ready", "retrying"] }).problem).toBe(
    "state:re* fits ready, retrying: choose one.",
  );
  // Keys have no known values, so the star is an ordinary character.
  expect(read("key:a*")).toEqual({ key: "a*" });
});

test("a parsed line is printed as an equivalent line", () => {
  const values = { kind: "send-receipt", error: 'a "b" \\ c', state: "dead" };
  expect(read(printSearch(values))).toEqual(values);
  expect(printSearch({})).toBe("");
});

test("suggestions continue the typed text: qualifiers, then values", () => {
  expect(suggest("ki", known)).toEqual(["kind:"]);
  expect(suggest("state:dead kind:re", known)).toEqual([
    "state:dead kind:read-map",
    "state:dead kind:read-page",
  ]);
  expect(suggest("kind:read*", known)).toEqual(["kind:read-map", "kind:read-page"]);
  expect(suggest("key:a", known)).toEqual([]);
});

test("the same filter as a command can be pasted into a shell", () => {
  expect(asCommand({ state: "dead", kind: "send-receipt", error: "it's gone", since: "1h" })).toBe(
    String.raw`npx stint jobs list --state dead --kind send-receipt --error 'it'\''s gone' --since 1h`,
  );
});

test("the command names the schema if it is not the default", () => {
  expect(asCommand({ state: "dead" }, "billing_jobs")).toBe(
    "npx stint jobs list --state dead --schema billing_jobs",
  );
  expect(asCommand({ state: "dead" }, "stint")).toBe("npx stint jobs list --state dead");
});
