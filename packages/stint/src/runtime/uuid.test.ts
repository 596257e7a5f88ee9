import * as fc from "fast-check";
import { expect, test } from "vitest";
import { isUuid, uuidv7 } from "./uuid.ts";

const moment = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const random = fc.uint8Array({ minLength: 10, maxLength: 16 });

test("the time and the random bits are where the standard puts them", () => {
  const bytes = Uint8Array.from([0xfa, 0xbc, 0xff, 1, 2, 3, 4, 5, 6, 7]);
  expect(uuidv7(0x017f22e279b0, bytes)).toBe("017f22e2-79b0-7abc-bf01-020304050607");
});

test("every id is a UUID of version 7", () => {
  fc.assert(
    fc.property(moment, random, (nowMs, bytes) => {
      const id = uuidv7(nowMs, bytes);
      expect(isUuid(id)).toBe(true);
      expect(id).toMatch(/^.{14}7.{4}[89ab]/);
    }),
  );
});

test("ids sort by their time", () => {
  fc.assert(
    fc.property(moment, moment, random, random, (a, b, left, right) => {
      fc.pre(a < b);
      expect(uuidv7(a, left) < uuidv7(b, right)).toBe(true);
    }),
  );
});

test("too few random bytes are refused rather than filled with zeros", () => {
  expect(() => uuidv7(0, new Uint8Array(9))).toThrow(RangeError);
});

test.each([
  "",
  "x",
  "017f22e279b07abcbf01020304050607",
  "017f22e2-79b0-7abc-bf01-02030405060g",
  " ",
  5,
  null,
])("%j is not a UUID", (text) => {
  expect(isUuid(text)).toBe(false);
});

test("a UUID in capitals is a UUID", () => {
  expect(isUuid("017F22E2-79B0-7ABC-BF01-020304050607")).toBe(true);
});
