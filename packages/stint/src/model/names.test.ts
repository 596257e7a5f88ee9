import * as fc from "fast-check";
import { expect, test } from "vitest";
import { InvalidOptionError } from "../errors.ts";
import { checkName, checkSchemaName, checkText, closest } from "./names.ts";

test.each(["send-receipt", "a", "0", "billing/invoice:v2.pdf", "A_b", "x".repeat(128)])(
  "%s is a name",
  (name) => {
    expect(checkName(name, "kind")).toBe(name);
  },
);

test.each(["", "-a", ".a", "a b", "é", "a\n", "a'; drop table job; --", "x".repeat(129), null, 5, {}])(
  "%j is not a name",
  (name) => {
    expect(() => checkName(name, "kind")).toThrow(InvalidOptionError);
    expect(() => checkName(name, "kind")).toThrow(/^kind: must be 1 to 128 characters/);
  },
);

test.each(["stint", "_jobs", "a1", "x".repeat(41)])("%s is a schema name", (name) => {
  expect(checkSchemaName(name)).toBe(name);
});

test.each(["", "Stint", "1a", "a-b", 'a"b', "x".repeat(42), "pg_jobs", "information_schema", undefined])(
  "%j is not a schema name",
  (name) => {
    expect(() => checkSchemaName(name, "schema")).toThrow(InvalidOptionError);
  },
);

test("a text of any script is accepted as it is", () => {
  expect(checkText("Zahlung № 5 für 😀", "key")).toBe("Zahlung № 5 für 😀");
});

test.each([
  ["", "must not be empty"],
  ["a\0b", "control characters"],
  ["a\nb", "control characters"],
  ["\u001b[31m", "control characters"],
  ["half \ud83d", "half of a surrogate pair"],
  ["x".repeat(513), "at most 512 characters (it has 513)"],
  [5, "must be a string"],
  [undefined, "must be a string"],
])("the text %j is refused by the rule it breaks", (value, rule) => {
  expect(() => checkText(value, "key")).toThrow(rule);
  expect(() => checkText(value, "key")).toThrow(InvalidOptionError);
});

test("the limit of a text can be set", () => {
  expect(() => checkText("abcd", "tag", { max: 3 })).toThrow("at most 3 characters");
});

function isAccepted(text: string): boolean {
  try {
    return checkText(text, "key") === text;
  } catch (error) {
    if (error instanceof InvalidOptionError) return false;
    throw error;
  }
}

test("every accepted text survives JSON and has no NUL", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", minLength: 1 }), (text) => {
      fc.pre(isAccepted(text));
      expect(Buffer.from(text, "utf8").toString("utf8")).toBe(text);
      expect(text).not.toContain("\0");
    }),
  );
});

const options = ["attempts", "priority", "runAt", "delay", "tags", "key"];

test.each([
  ["atempts", "attempts"],
  ["attepmts", "attempts"],
  ["runat", "runAt"],
  ["Delay", "delay"],
  ["tag", "tags"],
  ["prioritee", "priority"],
  ["banana", undefined],
  ["", undefined],
  ["x".repeat(10_000), undefined],
])("closest to %s is %s", (word, meant) => {
  expect(closest(word, options)).toBe(meant);
});

test("swapping two neighbouring letters counts as one slip", () => {
  expect(closest("kye", ["key"])).toBe("key");
  expect(closest("yek", ["key"])).toBeUndefined();
});
