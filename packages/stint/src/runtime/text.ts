/**
 * Text that Postgres can store: no NUL and no half of a surrogate pair.
 *
 * `isWellFormed` and `toWellFormed` are in every Node we support, but not in the ES2023 types.
 */
type WellFormed = { isWellFormed(): boolean; toWellFormed(): string };

const replacement = "\uFFFD";

/** Whether the text has no lone surrogate. */
export function isWellFormed(text: string): boolean {
  return (text as unknown as WellFormed).isWellFormed();
}

/** Replaces what Postgres refuses, NUL and lone surrogates, by U+FFFD. */
export function toStorable(text: string): string {
  const whole = (text as unknown as WellFormed).toWellFormed();
  return whole.includes("\0") ? whole.replaceAll("\0", replacement) : whole;
}

/**
 * Shorten the text so that, as a JSON string, it takes at most `maxBytes` bytes of UTF-8.
 *
 * Bytes are counted as JSON writes them: a control character takes six, so a limit in characters
 * would let a hostile message grow sixfold. A surrogate pair is never split. Only the kept part is
 * read, for a text of any length.
 */
export function clip(text: string, maxBytes: number): string {
  let bytes = 0;
  let index = 0;
  while (index < text.length) {
    const point = text.codePointAt(index) ?? 0;
    bytes += jsonBytes(point);
    if (bytes > maxBytes) break;
    index += point > 0xffff ? 2 : 1;
  }
  return toStorable(index < text.length ? text.slice(0, index) : text);
}

function jsonBytes(point: number): number {
  if (point === 0) return 3; // stored as U+FFFD
  if (point < 0x20) return 6;
  if (point === 0x22 || point === 0x5c) return 2;
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point > 0xffff ? 4 : 3;
}
