import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { inLab } from "../../test/support/lab.ts";
import { anyValue } from "../../test/support/any-value.ts";
import { InvalidPayloadError } from "../errors.ts";
import { encodeJson } from "./json.ts";

// An escape, and not an escaped backslash before a "u".
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/i;

const encode = (value: unknown, maxBytes = 1_048_576) =>
  encodeJson(value, { kind: "send-receipt", root: "payload", maxBytes });

function refusal(value: unknown, maxBytes?: number): InvalidPayloadError {
  try {
    encode(value, maxBytes);
  } catch (error) {
    if (error instanceof InvalidPayloadError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

test("any JSON value is written as JSON.stringify writes it", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      fc.pre(!/\\u0000|\\ud[89a-f]/.test(JSON.stringify(value)));
      expect(encode(value)).toBe(JSON.stringify(value));
    }),
  );
});

/** Null for a typed refusal; any other error is a bug and passes through. */
function textOrNull(value: unknown): string | null {
  try {
    return encode(value);
  } catch (error) {
    if (error instanceof InvalidPayloadError) return null;
    throw error;
  }
}

test("any value gives storable JSON or a typed error", () => {
  fc.assert(
    fc.property(anyValue, (value) => {
      const text = textOrNull(value);
      fc.pre(text !== null);
      expect(JSON.stringify(JSON.parse(text))).toBe(text);
      expect(text).not.toMatch(unstorable);
    }),
    { numRuns: inLab ? 500 : 150 },
  );
});

test("a property that is undefined is left out, like an optional one", () => {
  expect(encode({ a: undefined, b: 1, c: undefined, d: null })).toBe('{"b":1,"d":null}');
});

test("minus zero becomes zero", () => {
  expect(encode([-0])).toBe("[0]");
});

test("keys that mean something to JavaScript are plain data", () => {
  const value: unknown = JSON.parse('{"__proto__":{"admin":true},"constructor":1,"hasOwnProperty":2}');
  expect(encode(value)).toBe('{"__proto__":{"admin":true},"constructor":1,"hasOwnProperty":2}');
});

test("objects without a prototype and of another realm are plain", () => {
  expect(encode(Object.assign(Object.create(null), { a: 1 }))).toBe('{"a":1}');
  expect(encode(runInNewContext("({ a: [1, {}] })"))).toBe('{"a":[1,{}]}');
});

test("a value that occurs twice is not a cycle", () => {
  const shared = { a: 1 };
  expect(encode([shared, shared])).toBe('[{"a":1},{"a":1}]');
});

class Money {
  readonly amount = 5;
}

test.each([
  ["undefined", undefined, "is undefined; use null"],
  ["undefined in an array", [undefined], "is undefined; use null"],
  ["a hole", Object.assign([], { length: 3 }), "is a hole in the array"],
  ["a bigint", 5n, "is a bigint"],
  ["a function", () => 1, "is a function"],
  ["a symbol", Symbol("a"), "is a symbol"],
  ["NaN", Number.NaN, "is NaN"],
  ["Infinity", Number.NEGATIVE_INFINITY, "is -Infinity"],
  ["a Date", new Date(0), "is a Date; use an ISO string"],
  ["a Map", new Map(), "is a Map; use Object.fromEntries"],
  ["a Set", new Set(), "is a Set; use an array"],
  ["a Buffer", Buffer.from("a"), "is a Buffer; use a base64 string"],
  ["an ArrayBuffer", new ArrayBuffer(1), "is a ArrayBuffer; use a base64 string"],
  ["a promise", Promise.resolve(1), "is a Promise; await it first"],
  ["an error", new Error("no"), "is an error; use its message"],
  ["a boxed string", new String("a"), "is a String object; use the plain value"],
  ["an instance", new Money(), "is an instance of Money; use a plain object"],
  ["NUL", "a\0", "contains a NUL character"],
  ["a NUL in a key", { "a\0": 1 }, "contains a NUL character"],
  ["a lone surrogate", "\ud800", "contains half of a surrogate pair"],
  ["a lone surrogate in a key", { "\udc00": 1 }, "contains half of a surrogate pair"],
])("%s is refused with advice", (_, value, rule) => {
  expect(refusal(value).rule).toContain(rule);
});

test("the path leads to the culprit", () => {
  expect(refusal({ items: [1, { price: 5n }] }).path).toBe("payload.items[1].price");
  expect(refusal({ "odd key": [Number.NaN] }).path).toBe('payload["odd key"][0]');
  expect(refusal(5n).message).toBe(
    "send-receipt: payload is a bigint, which JSON has no number for; use a string",
  );
  expect(refusal([[1], { a: {} }, [() => 1]]).path).toBe("payload[2][0]");
});

test("a toJSON is never called", () => {
  const toJSON = () => {
    throw new Error("called");
  };
  expect(refusal({ toJSON }).path).toBe("payload.toJSON");
  expect(refusal(Object.create({ toJSON })).rule).toContain("is an instance of");
});

test("a cycle is refused where it closes", () => {
  const order: Record<string, unknown> = { id: 1 };
  order["lines"] = [{ order }];
  expect(refusal(order)).toMatchObject({
    path: "payload.lines[0].order",
    rule: "contains itself; JSON has no cycles",
  });
});

test("64 levels pass and 65 do not", () => {
  expect(JSON.parse(encode(nested(64)))).toEqual(nested(64));
  expect(refusal(nested(65)).rule).toBe("is nested deeper than 64 levels; flatten it");
});

test("a value nested 100,000 levels deep is refused without exhausting the stack", () => {
  expect(refusal(nested(100_000)).rule).toContain("deeper than 64 levels");
});

test("size is counted in bytes of UTF-8, and the message names both sizes", () => {
  expect(encode("é".repeat(4), 10)).toBe('"éééé"');
  expect(refusal("é".repeat(5), 10).message).toBe(
    "send-receipt: payload is 12 bytes of JSON, over the limit of 10; store it elsewhere and pass a reference",
  );
});

test("a value whose parts are shared is refused before it unfolds into terabytes", () => {
  let value: unknown = "leaf";
  for (let level = 0; level < 50; level++) value = [value, value];
  expect(refusal(value).rule).toMatch(/^is at least \d+ bytes of JSON, over the limit of 1048576/);
});

test("a getter that throws is refused with its path and its error", () => {
  const cause = new Error("lazy load failed");
  const value = {
    user: {
      get name(): string {
        throw cause;
      },
    },
  };
  expect(refusal(value)).toMatchObject({
    path: "payload.user.name",
    rule: "cannot be read: reading it throws",
    cause,
  });
});

test("a getter that returns a new value each time is written as it was checked", () => {
  let reads = 0;
  const value = {
    get a() {
      return reads++ === 0 ? 1 : 5n;
    },
  };
  expect(encode(value)).toBe('{"a":1}');
});

test("a Proxy is either read or refused", () => {
  expect(encode(new Proxy({ a: 1 }, {}))).toBe('{"a":1}');
  const traps: (keyof ProxyHandler<object>)[] = [
    "get",
    "getPrototypeOf",
    "ownKeys",
    "getOwnPropertyDescriptor",
  ];
  for (const trap of traps) {
    const hostile = new Proxy(
      { a: 1 },
      {
        [trap]: () => {
          throw new Error(trap);
        },
      },
    );
    expect(refusal({ hostile }).rule).toContain("cannot be read");
  }
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  expect(refusal({ proxy }).path).toBe("payload.proxy");
});

test("an array that claims to be endless is refused by its size", () => {
  const endless = new Proxy([], {
    get: (_, key) => (key === "length" ? Infinity : "x".repeat(100)),
    has: () => true,
  });
  expect(refusal(endless).rule).toContain("over the limit");
});
