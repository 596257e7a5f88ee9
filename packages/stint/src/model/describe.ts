import { maskUrl } from "../runtime/mask.ts";
import { clip } from "../runtime/text.ts";

const mostBytes = 200;
const mostEntries = 5;
const mostRead = 5_000;

/**
 * A short text for any value, for use in messages.
 *
 * It never throws, and runs no code of the value except for reading a few properties, so it is safe for
 * hostile values.
 */
export function describe(value: unknown): string {
  try {
    return clip(describeAt(value, 0), mostBytes);
  } catch {
    return "a value that cannot be read";
  }
}

/** The class name of the object, or "Object" if it cannot be read. */
export function className(value: object): string {
  try {
    const { constructor } = value;
    const name: unknown = typeof constructor === "function" ? constructor.name : undefined;
    return typeof name === "string" && name !== "" ? clip(name, 128) : "Object";
  } catch {
    return "Object";
  }
}

function describeAt(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "bigint":
      return describeBigint(value);
    case "symbol":
      return `Symbol(${clip(value.description ?? "", 60)})`;
    case "function":
      return "a function";
    case "object":
      return value === null ? "null" : describeObject(value, depth);
    case "number":
    case "boolean":
    case "undefined":
      return Object.is(value, -0) ? "-0" : String(value);
    default:
      return "a value";
  }
}

function quote(text: string): string {
  // Masked before it is cut: the @ that marks a password may be in the part that is cut off.
  const safe = maskUrl(text.slice(0, mostRead));
  const short = clip(safe, 60);
  return JSON.stringify(short.length < safe.length || text.length > mostRead ? `${short}…` : short);
}

/** Formatting a bigint of a million digits takes minutes; truncating it to 64 bits does not. */
function describeBigint(value: bigint): string {
  return BigInt.asIntN(64, value) === value ? `${value}n` : "a bigint of more than 64 bits";
}

function describeObject(value: object, depth: number): string {
  if (Array.isArray(value)) {
    if (depth > 0) return "[…]";
    const items = value.slice(0, mostEntries).map((item) => describeAt(item, depth + 1));
    return `[${items.join(", ")}${value.length > mostEntries ? ", …" : ""}]`;
  }
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : value.toISOString();

  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) return `an instance of ${className(value)}`;
  if (depth > 0) return "{…}";

  const keys = Object.keys(value);
  if (keys.length === 0) return "{}";
  const entries = keys
    .slice(0, mostEntries)
    .map((key) => `${clip(maskUrl(key.slice(0, mostRead)), 30)}: ${describeEntry(value, key, depth)}`);
  return `{ ${entries.join(", ")}${keys.length > mostEntries ? ", …" : ""} }`;
}

function describeEntry(value: object, key: string, depth: number): string {
  const entry: unknown = (value as Record<string, unknown>)[key];
  return typeof entry === "string" && /passw|pwd/i.test(key) ? '"***"' : describeAt(entry, depth + 1);
}
