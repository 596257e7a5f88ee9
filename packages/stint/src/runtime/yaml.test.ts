import { expect, test } from "vitest";
import { toYaml } from "./yaml.ts";

test("lists and maps are nested under their names", () => {
  const value = { a: { b: [1, { c: "d e", f: [] }, ["x", "z"]] }, g: {}, h: null, i: false };

  expect(toYaml(value)).toBe(
    [
      "a:",
      "  b:",
      "    - 1",
      "    - c: d e",
      "      f: []",
      "    - - x",
      "      - z",
      "g: {}",
      "h: null",
      "i: false",
      "",
    ].join("\n"),
  );
});

test.each([
  ["plain words", "plain words"],
  ["/livez", "/livez"],
  ["true", '"true"'],
  ["No", '"No"'],
  ["null", '"null"'],
  ["8080", '"8080"'],
  ["1e3", '"1e3"'],
  ["", '""'],
  ["-", '"-"'],
  ["a: b", '"a: b"'],
  ["a #b", '"a #b"'],
  ["ends ", '"ends "'],
  ["two\nlines", '"two\\nlines"'],
  ['{{ $labels.x }} "y"', '"{{ $labels.x }} \\"y\\""'],
])("%j stays a string", (text, written) => {
  expect(toYaml(text)).toBe(`${written}\n`);
});
