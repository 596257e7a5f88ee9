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
 * @param randomBytes At least 10. The version replaces the upper four bits of the first byte, the
 *   variant the upper two bits of the third.
 */
export function uuidv7(nowMs: number, randomBytes: Uint8Array): string {
  if (randomBytes.length < 10)
    throw new RangeError(`uuidv7 needs 10 random bytes, got ${randomBytes.length}`);
  const time = Math.trunc(nowMs).toString(16).padStart(12, "0");
  const at = (index: number) => randomBytes[index] ?? 0;
  const byte = (value: number) => hex[value] ?? "00";

  const a = byte(0x70 | (at(0) & 0x0f)) + byte(at(1));
  const b = byte(0x80 | (at(2) & 0x3f)) + byte(at(3));
  const c = byte(at(4)) + byte(at(5)) + byte(at(6)) + byte(at(7)) + byte(at(8)) + byte(at(9));
  return `${time.slice(0, 8)}-${time.slice(8)}-${a}-${b}-${c}`;
}
