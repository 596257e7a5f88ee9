import { expect, test } from "vitest";
import { arrayElement } from "./array-element.ts";

test.each([
  ["plain", '"plain"'],
  ["", '""'],
  ["NULL", '"NULL"'],
  ["a,{b}", '"a,{b}"'],
  ['"', String.raw`"\""`],
  [String.raw`\ and "two" of \\`, String.raw`"\\ and \"two\" of \\\\"`],
])("%j is quoted for an array", (text, element) => {
  expect(arrayElement(text)).toBe(element);
});
