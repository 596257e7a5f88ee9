import { jobFilterKeys } from "stint/inspect";

/** The filter of a list of jobs as one line of words: `kind:read-page state:dead,retrying error:"no such page"`. */

type FilterValues = Readonly<Record<string, string | undefined>>;

export const qualifiers = jobFilterKeys;
export type Qualifier = (typeof qualifiers)[number];

/** Known values of a qualifier, for suggestions. */
export type Known = Readonly<Partial<Record<Qualifier, readonly string[]>>>;

export type Read = {
  /** Every qualifier; undefined where it was not given. */
  readonly values: FilterValues;
  /** The parts that cannot be searched, as messages for the user. */
  readonly problem: string | undefined;
};

const word = /([a-z]+):(?:"((?:[^"\\]|\\.)*)"|(\S*))|"((?:[^"\\]|\\.)*)"|(\S+)/gi;

/** Words without a qualifier are looked for in errors and reasons. */
export function readSearch(text: string, known: Known = {}): Read {
  const values: Record<string, string | undefined> = Object.fromEntries(
    qualifiers.map((name) => [name, undefined]),
  );
  const free: string[] = [];
  let problem: string | undefined;
  for (const [whole, name, quoted, plain, bare, loose] of text.matchAll(word)) {
    const qualifier = qualifiers.find((each) => each === name?.toLowerCase());
    if (qualifier === undefined) {
      free.push(bare === undefined ? (loose ?? whole) : unquoted(bare));
      continue;
    }
    const value = quoted === undefined ? (plain ?? "") : unquoted(quoted);
    if (value === "") continue;
    const found = expand(qualifier, value, known);
    if (typeof found === "string") values[qualifier] = found;
    else problem ??= found.problem;
  }
  if (free.length > 0) values["error"] ??= free.join(" ");
  return { values, problem };
}

/** The server searches patterns of kinds and queues. Elsewhere `re*` means the only name that starts with `re`. */
function expand(qualifier: Qualifier, value: string, known: Known): string | { problem: string } {
  const names = known[qualifier];
  if (!value.endsWith("*") || names === undefined || qualifier === "kind" || qualifier === "queue")
    return value;
  const fitting = names.filter((name) => name.startsWith(value.slice(0, -1)));
  const [only] = fitting;
  if (only !== undefined && fitting.length === 1) return only;
  if (only === undefined) return { problem: `No ${qualifier} begins with ${value.slice(0, -1)}.` };
  const few = fitting.slice(0, 3).join(", ");
  return {
    problem: `${qualifier}:${value} fits ${few}${fitting.length > 3 ? " and more" : ""}: choose one.`,
  };
}

/** The search line for these values. */
export function printSearch(values: FilterValues): string {
  return qualifiers
    .flatMap((name) => {
      const value = values[name];
      return value === undefined ? [] : [`${name}:${quotedIfNeeded(value)}`];
    })
    .join(" ");
}

/** Completions of the typed line: qualifiers, then their values. */
export function suggest(text: string, known: Known, most = 12): string[] {
  const at = text.search(/\S*$/);
  const before = text.slice(0, at);
  const last = text.slice(at);
  const [, name, begun = ""] = /^([a-z]+):(.*)$/i.exec(last) ?? [];
  const offers =
    name === undefined
      ? qualifiers.filter((each) => each.startsWith(last.toLowerCase())).map((each) => `${each}:`)
      : (known[name.toLowerCase() as Qualifier] ?? [])
          .filter((value) => value.startsWith(begun.replace(/\*$/, "")))
          .map((value) => `${name}:${quotedIfNeeded(value)}`);
  return offers.slice(0, most).map((offer) => before + offer);
}

/** The default schema of the commands. */
const defaultSchema = "stint";

/** The same filter as a command, to be pasted into a terminal. */
export function asCommand(values: FilterValues, schema = defaultSchema): string {
  const flags = qualifiers.flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [`--${name}`, shellWord(value)];
  });
  const where = schema === defaultSchema ? [] : ["--schema", shellWord(schema)];
  return ["npx", "stint", "jobs", "list", ...flags, ...where].join(" ");
}

function quotedIfNeeded(value: string): string {
  return /^[^\s"\\]+$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, (mark) => `\\${mark}`)}"`;
}

function unquoted(text: string): string {
  return text.replaceAll(/\\(.)/g, "$1");
}

function shellWord(text: string): string {
  return /^[\w./:@=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
