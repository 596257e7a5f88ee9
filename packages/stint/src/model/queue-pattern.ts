import { isPattern, matchesPattern } from "./name-pattern.ts";

/** The size of the cache of looked-up queues: the number of names that match a pattern is unlimited. */
const mostKnown = 10_000;

/**
 * Values by queue, for names and for patterns. The exact name wins over any pattern, then the pattern with the most
 * characters, then the one that was given first.
 */
export class QueueMap<Value> {
  readonly #byName = new Map<string, Value>();
  readonly #byPattern: { readonly pattern: string; readonly value: Value }[] = [];
  readonly #known = new Map<string, Value | undefined>();

  constructor(entries: Iterable<readonly [queueOrPattern: string, value: Value]>) {
    for (const [name, value] of entries) {
      if (isPattern(name)) this.#byPattern.push({ pattern: name, value });
      else this.#byName.set(name, value);
    }
    this.#byPattern.sort((a, b) => b.pattern.length - a.pattern.length);
  }

  get names(): readonly string[] {
    return [...this.#byName.keys()];
  }

  get patterns(): readonly string[] {
    return this.#byPattern.map(({ pattern }) => pattern);
  }

  get(queue: string): Value | undefined {
    const exact = this.#byName.get(queue);
    if (exact !== undefined || this.#byPattern.length === 0) return exact;
    if (this.#known.has(queue)) return this.#known.get(queue);
    const value = this.#byPattern.find(({ pattern }) => matchesPattern(pattern, queue))?.value;
    if (this.#known.size >= mostKnown) this.#known.clear();
    this.#known.set(queue, value);
    return value;
  }

  has(queue: string): boolean {
    return this.get(queue) !== undefined;
  }
}
