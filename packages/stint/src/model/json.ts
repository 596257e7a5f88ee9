import { types } from "node:util";
import { InvalidPayloadError } from "../errors.ts";
import { isWellFormed } from "../runtime/text.ts";
import { className } from "./describe.ts";
import { isA } from "./safe-read.ts";

export type EncodeOptions = {
  kind: string;
  /** The name of the value, with which its paths begin, such as `payload`. */
  root: string;
  maxBytes: number;
  /** The maximum nesting of objects and arrays. Default 64. */
  maxDepth?: number;
};

/**
 * Write a value as JSON that reads back as the same value and that Postgres can store as `jsonb`.
 *
 * `JSON.stringify` turns NaN into null, a Map into `{}` and a Date into a string, and lets through
 * text that Postgres refuses. Here all of these are refused, with the path of the culprit. The one
 * leniency is a property whose value is `undefined`: it is left out, as optional properties are.
 *
 * Every property is read once and written as it was read, so a getter or a Proxy that returns another
 * value the second time cannot bypass the checks. No `toJSON` is called.
 *
 * @throws {InvalidPayloadError} The value would not survive JSON.
 */
export function encodeJson(value: unknown, options: EncodeOptions): string {
  const text = new Encoder(options).write(value);
  const bytes = Buffer.byteLength(text);
  if (bytes > options.maxBytes) throw tooLarge(options, `${bytes}`);
  return text;
}

/** Printable ASCII without the quote and the backslash. */
const plainText = /^[ !#-[\]-~]*$/;

class Encoder {
  readonly #options: EncodeOptions;
  readonly #maxDepth: number;
  readonly #path: (string | number)[] = [];
  readonly #parents: object[] = [];
  /** Never more than the bytes written: values that share parts can be exponentially larger as text. */
  #written = 0;

  constructor(options: EncodeOptions) {
    this.#options = options;
    this.#maxDepth = options.maxDepth ?? 64;
  }

  write(value: unknown): string {
    switch (typeof value) {
      case "string":
        return this.#writeString(value);
      case "number":
        if (!Number.isFinite(value))
          throw this.#refuse(`is ${value}, which JSON has no number for; use null`);
        return this.#count(String(value));
      case "boolean":
        return this.#count(value ? "true" : "false");
      case "object":
        return value === null ? this.#count("null") : this.#writeContainer(value);
      case "undefined":
        throw this.#refuse("is undefined; use null for nothing");
      case "bigint":
        throw this.#refuse("is a bigint, which JSON has no number for; use a string");
      case "function":
        throw this.#refuse("is a function, which cannot be stored; leave it out");
      case "symbol":
      default:
        throw this.#refuse("is a symbol, which cannot be stored; use a string");
    }
  }

  #writeString(value: string): string {
    // Checked before the text is scanned: a gigabyte of text is refused at the cost of reading its length.
    this.#written += value.length + 2;
    this.#checkSize();
    // The common case: no character needs escaping or can be refused.
    if (value.length < 200 && plainText.test(value)) return `"${value}"`;
    if (value.includes("\0")) throw this.#refuse("contains a NUL character, which Postgres cannot store");
    if (!isWellFormed(value)) {
      throw this.#refuse("contains half of a surrogate pair, which is not valid text; use toWellFormed()");
    }
    return JSON.stringify(value);
  }

  #writeContainer(value: object): string {
    if (this.#parents.includes(value)) throw this.#refuse("contains itself; JSON has no cycles");
    if (this.#parents.length >= this.#maxDepth) {
      throw this.#refuse(`is nested deeper than ${this.#maxDepth} levels; flatten it`);
    }
    this.#parents.push(value);
    const depth = this.#path.length;
    try {
      return Array.isArray(value) ? this.#writeArray(value) : this.#writeObject(value);
    } catch (error) {
      // A getter or a Proxy of the user threw; the path still points to the property.
      if (isA(error, InvalidPayloadError)) throw error;
      throw this.#refuse("cannot be read: reading it throws", { cause: error });
    } finally {
      this.#path.length = depth;
      this.#parents.pop();
    }
  }

  #writeArray(items: readonly unknown[]): string {
    let text = "";
    for (let index = 0; index < items.length; index++) {
      this.#path.push(index);
      if (!(index in items)) throw this.#refuse("is a hole in the array; use null for nothing");
      text += (index === 0 ? "" : ",") + this.write(items[index]);
      this.#path.pop();
    }
    this.#written += 2;
    return `[${text}]`;
  }

  #writeObject(value: object): string {
    const advice = adviceAgainst(value);
    if (advice !== undefined) throw this.#refuse(advice);

    let text = "";
    for (const key of Object.keys(value)) {
      this.#path.push(key);
      const property = (value as Record<string, unknown>)[key];
      if (property !== undefined) {
        const name = this.#writeString(key);
        text += `${text === "" ? "" : ","}${name}:${this.write(property)}`;
      }
      this.#path.pop();
    }
    this.#written += 2;
    return `{${text}}`;
  }

  #count(text: string): string {
    this.#written += text.length;
    this.#checkSize();
    return text;
  }

  #checkSize(): void {
    if (this.#written > this.#options.maxBytes) throw tooLarge(this.#options, `at least ${this.#written}`);
  }

  #refuse(rule: string, options?: ErrorOptions): InvalidPayloadError {
    const path = this.#options.root + this.#path.map(formatStep).join("");
    return new InvalidPayloadError(this.#options.kind, path, rule, options);
  }
}

function tooLarge({ kind, root, maxBytes }: EncodeOptions, size: string): InvalidPayloadError {
  return new InvalidPayloadError(
    kind,
    root,
    `is ${size} bytes of JSON, over the limit of ${maxBytes}; store it elsewhere and pass a reference`,
  );
}

/** One step of a path: `.price`, `[3]`, or `["odd key"]`. */
export function formatStep(step: string | number): string {
  if (typeof step === "number") return `[${step}]`;
  if (/^[A-Za-z_$][\w$]{0,63}$/.test(step)) return `.${step}`;
  return `[${JSON.stringify(step.length > 64 ? `${step.slice(0, 64)}…` : step)}]`;
}

/** The advice for an object that is not plain; undefined for a plain one. */
function adviceAgainst(value: object): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  // The last case is the plain object of another realm (a `vm` context, some test runners).
  if (prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null) {
    return undefined;
  }
  if (types.isDate(value)) return "is a Date; use an ISO string (date.toISOString())";
  if (types.isMap(value)) return "is a Map; use Object.fromEntries(map)";
  if (types.isSet(value)) return "is a Set; use an array ([...set])";
  if (types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value)) {
    return `is a ${className(value)}; use a base64 string, or store the bytes elsewhere and pass a reference`;
  }
  if (types.isPromise(value)) return "is a Promise; await it first";
  if (types.isNativeError(value)) return "is an error; use its message";
  if (types.isBoxedPrimitive(value)) return `is a ${className(value)} object; use the plain value`;
  return `is an instance of ${className(value)}; use a plain object`;
}
