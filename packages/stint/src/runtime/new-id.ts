import { randomFillSync } from "node:crypto";
import { uuidv7 } from "./uuid.ts";

const counterMax = 0xfff;

/**
 * Make a source of ids. Each id sorts after the previous one, even if the clock is set back.
 *
 * Jobs enqueued in one millisecond keep their order through a counter in the 12 bits after the time. When
 * it overflows, or the clock is set back, the source runs on from the last millisecond it used.
 */
export function idSource(now: () => number, fillRandom: (bytes: Uint8Array) => unknown): () => string {
  // Random bytes for many ids at a time: one call for ten bytes costs more than making the id.
  const pool = new Uint8Array(10 * 128);
  let used = pool.length;
  let lastMs = -1;
  let counter = 0;

  return () => {
    if (used === pool.length) {
      fillRandom(pool);
      used = 0;
    }
    const from = used;
    used += 10;

    const nowMs = now();
    if (nowMs > lastMs || counter === counterMax) {
      lastMs = Math.max(nowMs, lastMs + 1);
      // Starts in the lower half, so that at least 2048 ids fit before the time must be run ahead.
      counter = (((pool[from] ?? 0) & 0x07) << 8) | (pool[from + 1] ?? 0);
    } else {
      counter++;
    }
    pool[from] = counter >> 8;
    pool[from + 1] = counter & 0xff;
    return uuidv7(lastMs, pool, from);
  };
}

/** A new id: a UUIDv7 that sorts after every id this process made before. */
export const newId: () => string = idSource(Date.now, randomFillSync);
