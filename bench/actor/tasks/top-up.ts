import type { Context } from "../context.ts";
import { makePayload } from "../payload.ts";

const size = 1_000;

/** Enqueue `count` jobs in addition to the existing ones. (`fill` may replace existing jobs.) */
export async function topUp({ client }: Context, { count }: { count: number }): Promise<void> {
  for (let n = 0; n < count; n += size) {
    const length = Math.min(size, count - n);
    await client.enqueueBulk(Array.from({ length }, (_, i) => makePayload(n + i)));
  }
}
