import * as fc from "fast-check";
import { expect, test } from "vitest";
import { clip, isWellFormed, toStorable } from "./text.ts";

const anyText = fc.string({ unit: "binary" });
const units = fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes));

test("storable text has no NUL and no lone surrogate", () => {
  fc.assert(
    fc.property(fc.oneof(anyText, units), (text) => {
      const storable = toStorable(text);
      expect(isWellFormed(storable)).toBe(true);
      expect(storable).not.toContain("\0");
      expect(storable).toHaveLength(text.length);
    }),
  );
});

test("a clipped text keeps its limit as JSON, and is a prefix of the text", () => {
  fc.assert(
    fc.property(fc.oneof(anyText, units), fc.nat(100), (text, maxBytes) => {
      const short = clip(text, maxBytes);
      expect(Buffer.byteLength(JSON.stringify(short)) - 2).toBeLessThanOrEqual(maxBytes);
      expect(toStorable(text).startsWith(short)).toBe(true);
    }),
  );
});

test("a text within the limit is kept whole", () => {
  expect(clip("plain é 😀", 100)).toBe("plain é 😀");
  expect(clip("abc", 3)).toBe("abc");
  expect(clip("é", 1)).toBe("");
});
