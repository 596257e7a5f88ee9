/** A log of events as sentences. The screen shows the latest; without a terminal each becomes a line. */
export type Tone = "plain" | "wait" | "bad" | "good";

export type Entry = { readonly at: Date; readonly tone: Tone; readonly text: string; times: number };

const sameWithinMs = 2_000;
const kept = 200;

export class Feed {
  /** Oldest first. */
  readonly entries: Entry[] = [];
  #unread: Entry[] = [];

  /** A repeat of the same text within two seconds raises a count instead of adding an entry. */
  add(tone: Tone, text: string): void {
    const at = new Date();
    const same = this.entries.findLast((entry) => entry.text === text);
    if (same !== undefined && at.getTime() - same.at.getTime() < sameWithinMs) {
      same.times += 1;
      return;
    }
    const entry = { at, tone, text, times: 1 };
    this.entries.push(entry);
    this.#unread.push(entry);
    if (this.entries.length > kept) this.entries.shift();
  }

  /** Entries added since the last call. */
  unread(): Entry[] {
    const entries = this.#unread;
    this.#unread = [];
    return entries;
  }
}
