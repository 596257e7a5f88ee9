import { InvalidOptionError } from "../errors.ts";
import { isWellFormed } from "../runtime/text.ts";
import { describe } from "./describe.ts";

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;
const schemaPattern = /^[a-z_][a-z0-9_]{0,40}$/;

/** Check the name of a kind or a queue: plain characters that need no quoting in a log, a URL or a shell. */
export function checkName(value: unknown, option: string): string {
  if (typeof value === "string" && namePattern.test(value)) return value;
  throw new InvalidOptionError(
    option,
    `must be 1 to 128 characters from A-Z, a-z, 0-9 and . _ : / -, beginning with a letter or a digit, got ${describe(value)}`,
  );
}

/** Check the name of a Postgres schema: one that means the same with and without quotes. */
export function checkSchemaName(value: unknown, option = "schema"): string {
  if (typeof value !== "string" || !schemaPattern.test(value)) {
    throw new InvalidOptionError(
      option,
      `must be 1 to 41 characters from a-z, 0-9 and _, not beginning with a digit, got ${describe(value)}`,
    );
  }
  // Postgres refuses schemas named pg_…, and its own schemas must not be used.
  if (value.startsWith("pg_") || value === "information_schema") {
    throw new InvalidOptionError(option, `must not be a schema of Postgres itself, got ${describe(value)}`);
  }
  return value;
}

/** Check a short free text (key, tenant, tag, reason, actor) that is stored and shown unchanged. */
export function checkText(value: unknown, option: string, { max = 512 }: { max?: number } = {}): string {
  const rule = textRule(value, max);
  if (rule === undefined) return value as string;
  throw new InvalidOptionError(option, `${rule}, got ${describe(value)}`);
}

function textRule(value: unknown, max: number): string | undefined {
  if (typeof value !== "string") return "must be a string";
  if (value === "") return "must not be empty";
  if (value.length > max) return `must be at most ${max} characters (it has ${value.length})`;
  if (hasControl(value)) return "must not contain control characters";
  if (!isWellFormed(value)) return "must not contain half of a surrogate pair";
  return undefined;
}

function hasControl(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    // The second range includes 0x9b, which some terminals read as the start of an escape sequence.
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  }
  return false;
}

/** The most similar candidate, if it is close enough for a "did you mean". */
export function closest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > 128) return undefined;
  const wanted = word.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    const distance = editDistance(wanted, candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** Damerau-Levenshtein: insertions, deletions, replacements, and swaps of two neighbours. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        at(above, column) + 1,
        at(current, column - 1) + 1,
        at(above, column - 1) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, at(before, column - 2) + 1);
      }
      current.push(cost);
    }
    before = above;
    above = current;
  }
  return at(above, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
