/** Texts that must not leave the server, and how they are taken out of other texts. */

export const hiddenMark = "[redacted]";

/** Shorter ones are left: hiding every "1" in a message would hide the message. */
const shortest = 4;
/** What comes of more is not worth the time: then nothing is shown that could hold one of them. */
const most = 1_000;
const mostWork = 50_000_000;
/** From here on a text may have been cut (a reason is, at 300 bytes), and end in the middle of a secret. */
const mayBeCut = 64;
const deepest = 200;

/** Names and states, which are no free text: a screen, and whoever presses a button on it, needs them as they are. */
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

  /** As it is, and as others quote it: in one line, in JSON, in an address. */
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

  /** A copy of words about a job, with the secrets replaced wherever they stand in a text. */
  outOf<T>(value: T): T {
    return this.isEmpty ? value : (this.#cleaner().words(value, 0) as T);
  }

  /** The same of what the user put there: a key may be a secret, and so may a number. */
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
    // A job made to be slow to show is shown without its words; the process has other things to do.
    if (this.#work > mostWork) return hiddenMark;
    let clean = text;
    for (const secret of this.#secrets) {
      if (clean.includes(secret)) clean = clean.replaceAll(secret, () => hiddenMark);
      clean = this.#withoutBeginning(clean, secret);
    }
    return this.#work > mostWork ? hiddenMark : clean;
  }

  /** Texts are cut, and a secret with them; what is left of it is its beginning. */
  #withoutBeginning(text: string, secret: string): string {
    const head = secret.slice(0, shortest);
    let clean = text;
    for (let at = clean.indexOf(head); at !== -1; at = clean.indexOf(head, at + 1)) {
      let end = at + shortest;
      while (end < clean.length && clean[end] === secret[end - at]) end += 1;
      // Step by step is slower than to search.
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
  // Half a character has no place in an address.
  return /\p{Cs}/u.test(text) ? "" : encodeURIComponent(text);
}
