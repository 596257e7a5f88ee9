import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { checkName } from "./names.ts";

const patternText = /^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$/;

/** Whether the text is a pattern for names of queues or kinds: `*` matches any characters, or none. */
export function isPattern(name: string): boolean {
  return name.includes("*");
}

/** Check a name, or a pattern for names such as `tenant-*`. */
export function checkNameOrPattern(value: unknown, option: string): string {
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

/** Whether the pattern matches the whole name. Without a `*` it matches that name only. */
export function matchesPattern(pattern: string, name: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === name;
  const end = name.length - last.length;
  if (!name.startsWith(first) || !name.endsWith(last) || end < first.length) return false;
  // Match each part as early as possible, which leaves the most text for the parts after it.
  let from = first.length;
  for (const part of rest) {
    const at = name.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return from <= end;
}

/** The pattern in the syntax of LIKE. */
export function toLike(pattern: string): string {
  return pattern.replaceAll(/[\\%_]/g, "\\$&").replaceAll("*", "%");
}
