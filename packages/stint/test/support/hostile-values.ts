import * as fc from "fast-check";
import { PermanentError, RateLimitedError } from "#stint/index.js";

/** Property names that some code might read from a value. */
const readNames = [
  "message",
  "name",
  "stack",
  "cause",
  "code",
  "errors",
  "constructor",
  "then",
  "toJSON",
  "toString",
  "retryAfter",
  "type",
  "delayMs",
  "reason",
  Symbol.toPrimitive,
  Symbol.toStringTag,
  Symbol.iterator,
] as const;

const traps = [
  "get",
  "getPrototypeOf",
  "has",
  "ownKeys",
  "getOwnPropertyDescriptor",
  "isExtensible",
] as const satisfies (keyof ProxyHandler<object>)[];

const refuse = (): never => {
  throw new Error("do not touch");
};

export function revokedProxy(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** A proxy whose traps all throw the value of `thrown`. */
export function trappedProxy(
  names: readonly (typeof traps)[number][] = traps,
  thrown: () => unknown = () => new Error("do not touch"),
): object {
  const trap = (): never => {
    throw thrown();
  };
  return new Proxy(new Error("inside"), Object.fromEntries(names.map((name) => [name, trap])));
}

const primitive = fc
  .oneof(
    fc.constantFrom(undefined, null, Number.NaN, -0, 10n ** 400n, Symbol("s"), "a\0b\uD800", "", refuse),
    fc.string(),
  )
  .map((value) => () => value);

const bases: fc.Arbitrary<() => object> = fc.constantFrom(
  () => ({}),
  () => [],
  () => new Error("plain"),
  () => new AggregateError([new Error("one")], "several"),
  () => new PermanentError("for good"),
  () => new RateLimitedError({ retryAfter: "1h" }),
  () => Object.create(null) as object,
  () => new Date(Number.NaN),
  () => ({ [Symbol.for("stint.outcome")]: true, type: "snooze", delayMs: Number.NaN }),
  () => ({ [Symbol.for("stint.outcome")]: true, type: "snooze", delayMs: 1e300 }),
  () => ({ [Symbol.for("stint.outcome")]: true, type: "cancel", reason: { toString: refuse } }),
);

/** Makers of values that throw when they are touched, or return other such values. fast-check itself would touch them. */
export const hostileValue: fc.Arbitrary<() => unknown> = fc.letrec<{ value: () => unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    primitive,
    fc.constant(revokedProxy),
    fc.subarray([...traps], { minLength: 1 }).map((names) => () => trappedProxy(names)),
    tie("value").map((inner) => () => trappedProxy(traps, inner)),
    fc.tuple(bases, fc.constantFrom(...readNames), tie("value")).map(([base, name, inner]) => () => {
      const get = (): never => {
        throw inner();
      };
      return Object.defineProperty(base(), name, { configurable: true, get });
    }),
    fc.tuple(bases, fc.constantFrom(...readNames), tie("value")).map(
      ([base, name, inner]) =>
        () =>
          Object.defineProperty(base(), name, { configurable: true, value: inner() }),
    ),
    fc.tuple(tie("value"), tie("value")).map(([first, second]) => () => ({
      // Calls back twice, and then throws.
      // oxlint-disable-next-line unicorn/no-thenable
      then: (resolve: (value: unknown) => void, reject: (reason: unknown) => void): never => {
        reject(first());
        resolve(second());
        throw first();
      },
    })),
  ),
})).value;
