import * as fc from "fast-check";
import { expect, test } from "vitest";
import { inLab } from "../../test/support/lab.ts";
import { anyValue } from "../../test/support/any-value.ts";
import { PermanentError } from "../errors.ts";
import { minimalFailure, recordFailure, type Failure } from "./failure.ts";

// An escape, and not an escaped backslash before a "u".
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i;

/** What Postgres, or a reader, would refuse in a failure. */
function flaws(failure: Failure): string[] {
  const text = JSON.stringify(failure);
  const found: string[] = [];
  if (Buffer.byteLength(text) >= 65_536) found.push(`${Buffer.byteLength(text)} bytes`);
  if (unstorable.test(text)) found.push("NUL or half of a surrogate pair");
  if (typeof failure.class !== "string" || typeof failure.message !== "string") found.push("not text");
  return found;
}

class CardDeclined extends Error {}

test("an error is recorded with its class, message, stack and code", () => {
  const failure = recordFailure(Object.assign(new CardDeclined("no funds"), { code: "E51" }));

  expect(failure).toEqual({
    class: "CardDeclined",
    message: "no funds",
    stack: expect.stringContaining("failure.test.ts"),
    code: "E51",
  });
});

test("the name an error gave itself wins over its constructor", () => {
  expect(recordFailure(Object.assign(new CardDeclined("x"), { name: "Declined" })).class).toBe("Declined");
  expect(recordFailure(new PermanentError("x"))).toMatchObject({
    class: "PermanentError",
    code: "PERMANENT",
  });
  expect(recordFailure(new TypeError("x")).class).toBe("TypeError");
});

test.each([
  ["just text", { class: "string", message: "just text" }],
  [42, { class: "number", message: "42" }],
  [undefined, { class: "undefined", message: "undefined" }],
  [null, { class: "null", message: "null" }],
  [Symbol("s"), { class: "symbol", message: "Symbol(s)" }],
  [5n, { class: "bigint", message: "5n" }],
  [() => 1, { class: "function", message: "a function" }],
  [
    { status: 503, error: "busy" },
    { class: "Object", message: '{ status: 503, error: "busy" }' },
  ],
  [
    { message: "plain", code: 7 },
    { class: "Object", message: "plain", code: "7" },
  ],
])("a thrown %s is recorded although it is no error", (thrown, failure) => {
  expect(recordFailure(thrown)).toEqual(failure);
});

test("the chain of causes is kept, nearest first", () => {
  const root = new TypeError("socket closed");
  const failure = recordFailure(new Error("outer", { cause: new Error("inner", { cause: root }) }));

  expect(failure.causes).toEqual([
    { class: "Error", message: "inner" },
    { class: "TypeError", message: "socket closed" },
  ]);
  expect(failure.truncated).toBeUndefined();
});

test("a cycle of causes ends", () => {
  const a = new Error("a");
  const b = new Error("b", { cause: a });
  a.cause = b;
  expect(recordFailure(a).causes).toEqual([{ class: "Error", message: "b" }]);
});

test("a chain of a thousand causes keeps the nearest eight and a mark", () => {
  let error = new Error("cause 0");
  for (let depth = 1; depth <= 1_000; depth++) error = new Error(`cause ${depth}`, { cause: error });
  const failure = recordFailure(error);

  expect(failure.causes?.map(({ message }) => message)).toEqual(
    [999, 998, 997, 996, 995, 994, 993, 992].map((depth) => `cause ${depth}`),
  );
  expect(failure.truncated).toBe(true);
});

test("of an AggregateError the first eight errors are kept", () => {
  const errors = Array.from({ length: 100_000 }, (_, index) => new Error(`part ${index}`));
  const failure = recordFailure(new AggregateError(errors, "all failed"));

  expect(failure.message).toBe("all failed");
  expect(failure.causes).toHaveLength(8);
  expect(failure.causes?.[7]).toEqual({ class: "Error", message: "part 7" });
  expect(failure.truncated).toBe(true);
});

test("a message of 100 MB is cut to 8 KiB, and the frames of the stack are kept", () => {
  const error = new Error("x".repeat(100_000_000));
  const used = process.cpuUsage();
  const failure = recordFailure(error);

  expect(process.cpuUsage(used).user).toBeLessThan(5_000_000);
  expect(failure.message).toBe("x".repeat(8_192));
  expect(failure.stack).toContain("failure.test.ts");
  expect(failure.truncated).toBe(true);
  expect(flaws(failure)).toEqual([]);
});

test("cutting never splits a character", () => {
  const failure = recordFailure(new Error(`a${"😀".repeat(5_000)}`));
  expect(failure.message).toBe(`a${"😀".repeat(2_047)}`);
});

test("NUL and lone surrogates become the replacement character", () => {
  expect(recordFailure("a\0b\ud800c")).toEqual({ class: "string", message: "a\uFFFDb\uFFFDc" });
});

test("control characters cannot swell the record past its bound", () => {
  const bad = "\u0001".repeat(100_000);
  const causes = Array.from({ length: 20 }, () => Object.assign(new Error(bad), { name: bad }));
  const thrown = Object.assign(new AggregateError(causes, bad), { name: bad, code: bad, stack: bad });
  expect(flaws(recordFailure(thrown))).toEqual([]);
});

const throwing = () => {
  throw new Error("trap");
};
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const trapped = () =>
  new Proxy(new Error("inside"), {
    get: throwing,
    has: throwing,
    ownKeys: throwing,
    getPrototypeOf: throwing,
    getOwnPropertyDescriptor: throwing,
  });
const withGetters = () =>
  Object.defineProperties(
    {},
    Object.fromEntries(
      ["name", "message", "stack", "cause", "code", "errors", "constructor", "toString"].map((key) => [
        key,
        { get: throwing },
      ]),
    ),
  );

test.each([
  ["a revoked Proxy", revoked],
  ["a Proxy whose traps throw", trapped],
  ["getters that throw", withGetters],
  [
    "an error whose parts are of the wrong type",
    () =>
      Object.assign(new Error("x"), {
        name: 5,
        message: { a: 1 },
        stack: [],
        cause: Symbol("c"),
        code: {},
        errors: "no",
      }),
  ],
  [
    "an error that causes itself",
    () => {
      const error = new Error("self");
      return Object.assign(error, { cause: error, errors: [error, error] });
    },
  ],
  [
    "a Proxy that returns itself for everything",
    () => {
      const proxy: object = new Proxy(Object.create(null), { get: () => proxy });
      return proxy;
    },
  ],
  ["an object without a prototype", () => Object.create(null)],
  ["errors in a revoked Proxy", () => ({ message: "m", errors: revoked() })],
  [
    "endless errors",
    () => ({
      message: "m",
      errors: new Proxy([], { get: (_, key) => (key === "length" ? Infinity : new Error("e")) }),
    }),
  ],
  [
    "a conversion that throws",
    () => ({ toString: throwing, toJSON: throwing, [Symbol.toPrimitive]: throwing }),
  ],
])("%s is recorded", (_, make) => {
  expect(flaws(recordFailure(make()))).toEqual([]);
});

test("any value can be recorded", () => {
  // Made in the property: fast-check itself looks into the values it draws, and would trip over these.
  const hostile = fc.constantFrom(revoked, trapped, withGetters);
  const plain = fc.oneof(anyValue, fc.string({ unit: "binary" })).map((value) => () => value);
  const part: fc.Arbitrary<() => unknown> = fc.oneof(plain, hostile);
  const parts = fc.dictionary(
    fc.constantFrom("name", "message", "stack", "code", "cause", "errors", "constructor"),
    fc.oneof(
      part,
      fc.array(part).map((list) => () => list.map((make) => make())),
    ),
  );

  fc.assert(
    fc.property(part, parts, (make, makers) => {
      expect(flaws(recordFailure(make()))).toEqual([]);
      const made = Object.entries(makers).map(([key, makePart]) => [key, makePart()]);
      expect(flaws(recordFailure(Object.assign(new Error("before"), Object.fromEntries(made))))).toEqual([]);
    }),
    { numRuns: inLab ? 500 : 150 },
  );
});

test("the last resort is storable", () => {
  expect(flaws(minimalFailure())).toEqual([]);
});
