/** The start of a value that is too large to show, as a value of the same shape. */

/** The maximum length of texts, of lists and objects, and of all entries together. */
const limits = { characters: 1_000, entries: 100, values: 2_000, depth: 8 };

/** The placeholder for left-out parts. */
const more = (count: number, what: string): string => `… ${count.toLocaleString("en-US")} more ${what}`;

export function preview(value: unknown): unknown {
  return new Preview().of(value, 0);
}

class Preview {
  #left = limits.values;

  of(value: unknown, depth: number): unknown {
    this.#left -= 1;
    if (typeof value === "string") return cut(value);
    if (typeof value !== "object" || value === null) return value;
    const size = Object.keys(value).length;
    if (depth >= limits.depth) return more(size, Array.isArray(value) ? "items" : "fields");
    const shown = Math.max(0, Math.min(limits.entries, this.#left));
    if (Array.isArray(value)) {
      const items = value.slice(0, shown).map((item) => this.of(item, depth + 1));
      return size > shown ? [...items, more(size - shown, "items")] : items;
    }
    const fields = Object.entries(value)
      .slice(0, shown)
      .map(([key, inner]): [string, unknown] => [cut(key), this.of(inner, depth + 1)]);
    if (size > shown) fields.push(["…", more(size - shown, "fields")]);
    return Object.fromEntries(fields);
  }
}

function cut(text: string): string {
  if (text.length <= limits.characters) return text;
  return `${text.slice(0, limits.characters)}${more(text.length - limits.characters, "characters")}`;
}
