import * as fc from "fast-check";
import { expect, test } from "vitest";
import { describe } from "./describe.ts";

test.each([
  ["text", `"text"`],
  ["line\nbreak", String.raw`"line\nbreak"`],
  [-0, "-0"],
  [12n, "12n"],
  [10n ** 100_000n, "a bigint of more than 64 bits"],
  [Symbol("mark"), "Symbol(mark)"],
  [undefined, "undefined"],
  [null, "null"],
  [() => 1, "a function"],
  [[1, "a", { b: 1 }], `[1, "a", {…}]`],
  [{ a: 1, b: [2] }, "{ a: 1, b: […] }"],
  [new Date(Number.NaN), "an invalid Date"],
  [new Map(), "an instance of Map"],
])("%# is described as a person would write it", (value, text) => {
  expect(describe(value)).toBe(text);
});

test("passwords are not shown, wherever they are", () => {
  const url = "postgres://app:S3cretPw@db.example/x";
  const long = `postgres://app:${"S3cretPw".repeat(20)}@db.example/x`;
  const values = [url, long, [url], { url }, { [url]: 1 }, { password: "S3cretPw" }, "app:S3cretPw@db/x"];
  for (const value of values) expect(describe(value)).not.toContain("S3cretPw");
  expect(describe(url)).toBe('"postgres://app:***@db.example/x"');
});

test("a long text is shortened with a mark", () => {
  expect(describe("x".repeat(1_000_000))).toBe(`"${"x".repeat(60)}…"`);
});

test("any value has a short description that can be stored", () => {
  fc.assert(
    fc.property(fc.anything({ withNullPrototype: true, withBigInt: true, withMap: true }), (value) => {
      const text = describe(value);
      expect(Buffer.byteLength(JSON.stringify(text))).toBeLessThan(300);
      expect(text).not.toContain("\0");
    }),
  );
});

test("a value that throws when read is still described", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(describe(proxy)).toBe("a value that cannot be read");
});
