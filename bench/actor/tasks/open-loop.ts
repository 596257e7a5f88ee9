import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../../core/clock.ts";
import type { Context } from "../context.ts";
import { makePayload } from "../payload.ts";

export type Sent = { sent: number; failed: number; firstError: string | undefined };

/**
 * Enqueue at a steady rate, whether or not earlier calls have returned. Jobs carry their intended time, so that a slow enqueue counts as
 * latency. With `since: "call"` jobs carry the time of the call, which leaves out the producer's timer.
 */
export async function openLoop(
  { client }: Context,
  { rate, seconds, since = "meant" }: { rate: number; seconds: number; since?: "meant" | "call" },
): Promise<Sent> {
  const calls = new Calls();
  const total = rate * seconds;
  const begin = nowMs();
  for (let n = 0; n < total;) {
    const due = Math.min(total, Math.floor(((nowMs() - begin) * rate) / 1000) + 1);
    for (; n < due; n++) {
      const at = since === "call" ? nowMs() : begin + (n * 1000) / rate;
      calls.add(client.enqueueOne(makePayload(n, at)));
    }
    await sleep(1);
  }
  return await calls.end();
}

/** Enqueue one at a time with a pause after each, so that the queue is empty and all workers are idle. */
export async function paced(
  { client }: Context,
  { count, minGapMs, maxGapMs }: { count: number; minGapMs: number; maxGapMs: number },
): Promise<Sent> {
  const calls = new Calls();
  for (let n = 0; n < count; n++) {
    const call = client.enqueueOne(makePayload(n, nowMs()));
    calls.add(call);
    await call.catch(() => undefined);
    // The same gaps for every system and round.
    await sleep(minGapMs + ((n * 37) % (maxGapMs - minGapMs)));
  }
  return await calls.end();
}

/** Pending calls. */
class Calls {
  #sent = 0;
  #failed = 0;
  #firstError: string | undefined;
  readonly #open = new Set<Promise<void>>();

  add(call: Promise<unknown>): void {
    this.#sent += 1;
    const watched: Promise<void> = call
      .then(
        () => undefined,
        (error: unknown) => {
          this.#failed += 1;
          this.#firstError ??= error instanceof Error ? error.message : String(error);
        },
      )
      .finally(() => this.#open.delete(watched));
    this.#open.add(watched);
  }

  /** Resolves when every call has returned. */
  async end(): Promise<Sent> {
    await Promise.all(this.#open);
    return { sent: this.#sent, failed: this.#failed, firstError: this.#firstError };
  }
}
