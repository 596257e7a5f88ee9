import { describe, expect, test } from "vitest";
import { firstAttemptOf, takesFirstAttempt, traceIdOf, traceOf, withTrace } from "./telemetry.ts";

const traceparent = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
const context = { traceparent };

describe("a trace in meta", () => {
  test.each([
    [undefined, { trace: context }],
    ["{}", { trace: context }],
    ['{"user":"u1"}', { user: "u1", trace: context }],
    ['{"user":{"trace":1}}', { user: { trace: 1 }, trace: context }],
    ['{"trace":null}', { trace: null }],
    ['{"a":1,"trace":{"traceparent":"own"}}', { a: 1, trace: { traceparent: "own" } }],
  ])("%s keeps the existing meta", (meta, expected) => {
    const text = withTrace(meta, context);
    expect(JSON.parse(text)).toEqual(expected);
    expect(text.split('"trace":{"traceparent":"00').length).toBeLessThanOrEqual(2);
  });

  test("is read back", () => {
    const trace = { traceparent, tracestate: "a=b", link: true } as const;
    expect(traceOf({ trace })).toEqual(trace);
    expect(traceIdOf({ trace })).toBe("1".repeat(32));
  });

  test.each([
    {},
    { trace: null },
    { trace: "x" },
    { trace: [] },
    { trace: { traceparent: 1 } },
    { trace: { traceparent: "00-1-2-01" } },
    { trace: { traceparent: `${traceparent}\n` } },
  ])("%j is no trace", (meta) => {
    expect(traceOf(meta)).toBeUndefined();
    expect(traceIdOf(meta)).toBeUndefined();
  });

  test("invalid parts are left out", () => {
    expect(traceOf({ trace: { traceparent, tracestate: 5, link: "yes" } })).toEqual(context);
  });
});

describe("the first attempt in meta", () => {
  test.each([
    [{}, undefined, true],
    [{ trace: context }, undefined, true],
    [{ trace: { ...context, first: traceparent } }, traceparent, false],
    [{ trace: { first: traceparent } }, traceparent, false],
    // Entries of other libraries are neither read nor changed.
    [{ trace: { ...context, first: "mine" } }, undefined, false],
    [{ trace: null }, undefined, false],
    [{ trace: "mine" }, undefined, false],
    [{ trace: [1] }, undefined, false],
  ])("of %j is %s", (meta, first, takes) => {
    expect(firstAttemptOf(meta)).toBe(first);
    expect(takesFirstAttempt(meta)).toBe(takes);
  });
});
