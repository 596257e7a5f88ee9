import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { checkName } from "./names.ts";

const patternText = /^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$/;

/** Whether this stands for many queues: `*` matches any characters, also none. */
export function isPattern(name: string): boolean {
  return name.includes("*");
}

/** Check the name of a queue, or a pattern for queues such as `tenant-*`. */
export function checkQueueOrPattern(value: unknown, option: string): string {
  if (typeof value !== "string" || !isPattern(value)) return checkName(value, option);
  if (!patternText.test(value)) {
    throw new InvalidOptionError(
      option,
      `must be a pattern of 1 to 128 characters from A-Z, a-z, 0-9, . _ : / - and *, beginning with a letter, a digit or *, got ${describe(value)}`,
    );
  }
  if (value.includes("**"))
    throw new InvalidOptionError(
      option,
      `must not contain ** (one * matches any characters), got ${describe(value)}`,
    );
  return value;
}

/** Whether the pattern matches the whole name of this queue. Without a `*` it matches that queue only. */
export function matchesQueue(pattern: string, queue: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === queue;
  const end = queue.length - last.length;
  if (!queue.startsWith(first) || !queue.endsWith(last) || end < first.length) return false;
  // Each part as early as it can be: that leaves the most to the ones after it.
  let from = first.length;
  for (const part of rest) {
    const at = queue.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return from <= end;
}

/** The pattern as LIKE takes it. */
export function toLike(pattern: string): string {
  return pattern.replaceAll(/[\\%_]/g, "\\$&").replaceAll("*", "%");
}

/** How many looked-up queues are remembered: names that match a pattern are without number. */
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
    const value = this.#byPattern.find(({ pattern }) => matchesQueue(pattern, queue))?.value;
    if (this.#known.size >= mostKnown) this.#known.clear();
    this.#known.set(queue, value);
    return value;
  }

  has(queue: string): boolean {
    return this.get(queue) !== undefined;
  }
}
