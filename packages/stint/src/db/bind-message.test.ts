import * as fc from "fast-check";
import { expect, test } from "vitest";
import { bindMessage } from "./bind-message.ts";

/** Reads the message as the server does. */
function read(message: Buffer): { statement: string; values: (string | null)[]; rest: string } {
  let at = 1;
  const int32 = (): number => message.readInt32BE((at += 4) - 4);
  const int16 = (): number => message.readUInt16BE((at += 2) - 2);
  const text = (): string => {
    const end = message.indexOf(0, at);
    const read = message.toString("utf8", at, end);
    at = end + 1;
    return read;
  };
  expect(message.toString("latin1", 0, 1)).toBe("B");
  const end = 1 + int32();
  expect(text()).toBe("");
  const statement = text();
  expect(int16()).toBe(0);
  const values = Array.from({ length: int16() }, () => {
    const length = int32();
    return length < 0 ? null : message.toString("utf8", at, (at += length));
  });
  expect(int16()).toBe(0);
  expect(at).toBe(end);
  return { statement, values, rest: message.toString("hex", at) };
}

test("every value is read as it was written, and the statement is executed", () => {
  const values = fc.array(fc.option(fc.string({ unit: "binary", maxLength: 40 })), { maxLength: 12 });
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z_.]{1,20}$/), values, (statement, given) => {
      expect(read(bindMessage(statement, given))).toEqual({
        statement,
        values: given,
        rest: "450000000900000000005300000004",
      });
    }),
  );
});

test("a value of megabytes is written whole", () => {
  const large = "é\u{1F600}x".repeat(500_000);
  expect(read(bindMessage("s", [large, null])).values).toEqual([large, null]);
});
