/** Reads values that user code threw or returned. A Proxy or a getter can throw at any access; these functions never do. */

/** Read a property of any value. A getter or a Proxy that throws counts as a missing property. */
export function read(target: unknown, key: PropertyKey): unknown {
  if (typeof target !== "object" || target === null) return undefined;
  try {
    return (target as Record<PropertyKey, unknown>)[key];
  } catch {
    return undefined;
  }
}

/** `Array.isArray`, which throws for a revoked Proxy. */
export function isArray(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** `instanceof`, which throws for a revoked Proxy and for a `getPrototypeOf` trap that throws. */
export function isA<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}
