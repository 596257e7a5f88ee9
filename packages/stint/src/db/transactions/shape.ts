import { InvalidOptionError } from "../../errors.ts";

/** A property of any value. Undefined where there is none, or where a proxy or a getter throws. */
export function read(value: unknown, name: string): unknown {
  if ((typeof value !== "object" || value === null) && typeof value !== "function") return undefined;
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

export function has(value: unknown, ...methods: readonly string[]): boolean {
  return methods.every((method) => typeof read(value, method) === "function");
}

/** Calls a method without arguments. Undefined where the method is missing or throws. */
export function call(value: unknown, method: string): unknown {
  const found = read(value, method);
  if (typeof found !== "function") return undefined;
  try {
    return Reflect.apply(found, value, []) as unknown;
  } catch {
    return undefined;
  }
}

export function notTransaction(what: string, instead: string): InvalidOptionError {
  return new InvalidOptionError(
    "stint.in(tx)",
    `this is ${what}, not a transaction. Pass ${instead}, or use stint.enqueue(…) to enqueue without one.`,
  );
}

/** The enqueue did not run in its transaction and wrote nothing. */
export class EndedTransactionError extends InvalidOptionError {
  override get name(): string {
    return "InvalidOptionError";
  }
  constructor(what: string, options?: ErrorOptions) {
    super(
      "stint.in(tx)",
      `${what}. Nothing was written. Call and await stint.in(tx).enqueue(…) before your transaction ends`,
      options,
    );
  }
}

export function ended(client: string): EndedTransactionError {
  return new EndedTransactionError(`this ${client} transaction has ended`);
}
