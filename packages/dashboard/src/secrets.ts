/** Secret texts, and their removal from other texts. */

export const hiddenMark = "[redacted]";

/** Shorter secrets are not replaced: replacing every "1" would make messages unreadable. */
const shortest = 4;
/** With more secrets, replacing takes too long: every text that could contain one is hidden instead. */
const most = 1_000;
const mostWork = 50_000_000;
/** Texts of this length may have been cut (reasons are cut at 300 bytes) and may end in the middle of a secret. */
const mayBeCut = 64;
const deepest = 200;

/** Names and states are not free text. The screen and its actions need them unchanged. */
const names = new Set([
  "id",
  "kind",
  "queue",
  "state",
  "worker",
  "what",
  "outcome",
  "action",
  "leaseId",
  "traceId",
]);

export class Secrets {
  readonly #texts = new Set<string>();

  get isEmpty(): boolean {
    return this.#texts.size === 0;
  }

  /** The secret itself and its escaped forms: in one line, in JSON, in a URL. */
  add(text: string): void {
    if (text.length < shortest || this.#texts.size > most) return;
    this.#texts.add(text);
    if (/^[\w.-]*$/.test(text)) return;
    for (const quoted of [
      text.replaceAll(/\s+/g, " ").trim(),
      JSON.stringify(text).slice(1, -1),
      inUrl(text),
    ])
      if (quoted.length >= shortest) this.#texts.add(quoted);
  }

  /** A copy of texts about a job, with every occurrence of a secret replaced. */
  outOf<T>(value: T): T {
    return this.isEmpty ? value : (this.#cleaner().words(value, 0) as T);
  }

  /** The same for values written by users: keys of objects and numbers may be secrets, too. */
  outOfData(value: unknown): unknown {
    return this.isEmpty ? value : this.#cleaner().data(value, 0);
  }

  #cleaner(): Cleaner {
    return new Cleaner([...this.#texts].sort((a, b) => b.length - a.length));
  }
}

class Cleaner {
  readonly #secrets: readonly string[];
  #work = 0;

  constructor(secrets: readonly string[]) {
    this.#secrets = secrets;
    if (secrets.length > most) this.#work = mostWork;
  }

  words(value: unknown, depth: number): unknown {
    return this.#copy(value, depth, (key, inner) => [
      key,
      typeof inner === "string" && names.has(key) ? inner : this.words(inner, depth + 1),
    ]);
  }

  data(value: unknown, depth: number): unknown {
    if (typeof value === "number" && this.#text(String(value)) !== String(value)) return hiddenMark;
    return this.#copy(value, depth, (key, inner) => [this.#text(key), this.data(inner, depth + 1)]);
  }

  #copy(
    value: unknown,
    depth: number,
    entry: (key: string, inner: unknown) => readonly [string, unknown],
  ): unknown {
    if (typeof value === "string") return this.#text(value);
    if (typeof value !== "object" || value === null || value instanceof Date) return value;
    if (depth > deepest) return hiddenMark;
    if (Array.isArray(value)) return value.map((item: unknown, index) => entry(String(index), item)[1]);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => entry(key, inner)));
  }

  #text(text: string): string {
    if (text.length < shortest) return text;
    this.#work += (text.length + 20) * this.#secrets.length;
    // Texts of a job that is crafted to take long are hidden, so that it cannot block the process.
    if (this.#work > mostWork) return hiddenMark;
    let clean = text;
    for (const secret of this.#secrets) {
      if (clean.includes(secret)) clean = clean.replaceAll(secret, () => hiddenMark);
      clean = this.#withoutBeginning(clean, secret);
    }
    return this.#work > mostWork ? hiddenMark : clean;
  }

  /** Removes the start of a secret where a text was cut in the middle of it. */
  #withoutBeginning(text: string, secret: string): string {
    const head = secret.slice(0, shortest);
    let clean = text;
    for (let at = clean.indexOf(head); at !== -1; at = clean.indexOf(head, at + 1)) {
      let end = at + shortest;
      while (end < clean.length && clean[end] === secret[end - at]) end += 1;
      // A loop over characters costs about four times as much as a search.
      this.#work += 4 * (end - at);
      if (this.#work > mostWork) break;
      const next = clean[end];
      const isCut = next === "…" || (end >= mayBeCut && (next === undefined || next === "\n"));
      if (isCut) clean = clean.slice(0, at) + hiddenMark + clean.slice(end);
    }
    return clean;
  }
}

function inUrl(text: string): string {
  // encodeURIComponent throws on a lone surrogate.
  return /\p{Cs}/u.test(text) ? "" : encodeURIComponent(text);
}
