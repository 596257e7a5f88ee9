const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Whether the text is a UUID of any version in the canonical form. */
export function isUuid(text: unknown): text is string {
  return typeof text === "string" && uuidPattern.test(text);
}

/**
 * A UUID of version 7 (RFC 9562): ids sort by time.
 *
 * @param nowMs Milliseconds since 1970; the first 48 bits.
 * @param randomBytes At least 10, beginning at `from`. The version replaces the upper four bits of the first byte, the
 *   variant the upper two bits of the third.
 */
export function uuidv7(nowMs: number, randomBytes: Uint8Array, from = 0): string {
  if (randomBytes.length < from + 10)
    throw new RangeError(`uuidv7 needs 10 random bytes, got ${randomBytes.length - from}`);
  const time = Math.trunc(nowMs).toString(16).padStart(12, "0");
  let text = `${time.slice(0, 8)}-${time.slice(8)}-`;
  for (let index = 0; index < 10; index++) {
    const byte = randomBytes[from + index] ?? 0;
    if (index === 0) text += hex[0x70 | (byte & 0x0f)];
    else if (index === 2) text += `-${hex[0x80 | (byte & 0x3f)]}`;
    else text += index === 4 ? `-${hex[byte]}` : hex[byte];
  }
  return text;
}
