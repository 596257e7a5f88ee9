import { expect, test } from "vitest";
import { isA, isArray, read } from "./safe-read.ts";

const { proxy: revoked, revoke } = Proxy.revocable<Error[]>([], {});
revoke();

test("a revoked proxy has no properties, is no array and no instance of anything", () => {
  expect(read(revoked, "message")).toBeUndefined();
  expect(isArray(revoked)).toBe(false);
  expect(isA(revoked, Error)).toBe(false);
});

test("plain values are read unchanged", () => {
  expect(read({ message: "m" }, "message")).toBe("m");
  expect(read(null, "message")).toBeUndefined();
  expect(isArray([])).toBe(true);
  expect(isA(new TypeError("t"), Error)).toBe(true);
  expect(isA("text", Error)).toBe(false);
});
