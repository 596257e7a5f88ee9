import type { Payload } from "../core/types.ts";

const filler = "x".repeat(60);

/** The payload of every benchmark job: about 100 bytes. */
export function makePayload(n: number, at = 0): Payload {
  return { n, at, filler };
}
