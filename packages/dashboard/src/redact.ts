/** Redacts values by path: `payload.card.number`, `*.password`, `error.stack`. */
import { InvalidOptionError } from "stint";
import { hiddenMark, type Secrets } from "./secrets.ts";

const roots = ["payload", "result", "meta", "error"];
const deepest = 200;

/** A leading `*` matches any depth. Anywhere else it matches one key. */
type Path = { readonly anywhere: boolean; readonly keys: readonly string[] };

export type Redactor = {
  /** A copy with the values at the paths replaced. The replaced values are added to `secrets`. */
  value(root: string, value: unknown, secrets?: Secrets): unknown;
  /** Whether any path is set, and whether any path is outside errors: lists then need the jobs' values, too. */
  readonly hides: boolean;
  readonly hidesData: boolean;
};

/** @throws {InvalidOptionError} A path is invalid. */
export function makeRedactor(paths: readonly string[]): Redactor {
  const parsed = paths.map(parsePath);
  return {
    value: (root, value, secrets) => {
      const open = parsed.flatMap(({ anywhere, keys }) =>
        !anywhere && (keys[0] === root || keys[0] === "*") ? [keys.slice(1)] : [],
      );
      return walk(value, open, parsed, secrets, 0);
    },
    hides: parsed.length > 0,
    hidesData: parsed.some(({ anywhere, keys }) => anywhere || keys[0] !== "error"),
  };
}

function parsePath(text: string): Path {
  const keys = typeof text === "string" ? text.toLowerCase().split(".") : [];
  // A path with another first part would silently redact nothing.
  if (keys.length < 2 || keys.includes("") || !["*", ...roots].includes(keys[0] ?? "")) {
    throw new InvalidOptionError(
      "createDashboard.redact",
      `must be paths such as "payload.card.number" or "*.password", got ${JSON.stringify(text)}`,
    );
  }
  return keys[0] === "*" ? { anywhere: true, keys: keys.slice(1) } : { anywhere: false, keys };
}

function walk(
  value: unknown,
  open: readonly (readonly string[])[],
  paths: readonly Path[],
  secrets: Secrets | undefined,
  depth: number,
): unknown {
  if (open.some((rest) => rest.length === 0)) {
    collect(value, secrets, depth);
    return value === null || value === undefined ? value : hiddenMark;
  }
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  // Bounds the recursion.
  if (depth > deepest) return hiddenMark;
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) =>
      // A path may or may not name the index in a list.
      walk(item, distinct([...open, ...after(open, paths, String(index), false)]), paths, secrets, depth + 1),
    );
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      walk(inner, after(open, paths, key.toLowerCase(), true), paths, secrets, depth + 1),
    ]),
  );
}

/** The rest of each path after this key. */
function after(
  open: readonly (readonly string[])[],
  paths: readonly Path[],
  key: string,
  anywhere: boolean,
): (readonly string[])[] {
  const further = open.flatMap((rest) => (rest[0] === key || rest[0] === "*" ? [rest.slice(1)] : []));
  const begun = anywhere
    ? paths.flatMap((path) =>
        path.anywhere && (path.keys[0] === key || path.keys[0] === "*") ? [path.keys.slice(1)] : [],
      )
    : [];
  return distinct([...further, ...begun]);
}

/** Deduplicates paths. Otherwise a path with many stars would be followed exponentially often in nested lists. */
function distinct(open: readonly (readonly string[])[]): (readonly string[])[] {
  return open.length < 2 ? [...open] : [...new Map(open.map((rest) => [rest.join("."), rest])).values()];
}

function collect(value: unknown, secrets: Secrets | undefined, depth: number): void {
  if (secrets === undefined || depth > deepest) return;
  if (typeof value === "string" || typeof value === "number") secrets.add(String(value));
  else if (typeof value === "object" && value !== null)
    for (const inner of Object.values(value)) collect(inner, secrets, depth + 1);
}
