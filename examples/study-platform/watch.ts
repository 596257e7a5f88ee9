/** Observes a worker: busy slots, throughput per queue, and events worth showing. */
import { PermanentError, RateLimitedError, type HandlerContext, type Middleware, type Worker } from "stint";
import type { Feed } from "./feed.ts";
import { queueOf, queues, type Queue } from "./jobs.ts";

const rateOverMs = 5_000;

export class Watch {
  readonly #feed: Feed;
  readonly #busy = zeros();
  readonly #succeeded = zeros();
  /** Times of each queue's latest successes. */
  readonly #moments = new Map<Queue, number[]>(queues.map((queue) => [queue, []]));
  readonly #startedAt = performance.now();

  constructor(feed: Feed) {
    this.#feed = feed;
  }

  busy(queue: Queue): number {
    return this.#busy[queue];
  }

  succeeded(queue: Queue): number {
    return this.#succeeded[queue];
  }

  /** Successes per second over the last few seconds. */
  rate(queue: Queue): number {
    const now = performance.now();
    const moments = (this.#moments.get(queue) ?? []).filter((at) => now - at < rateOverMs);
    this.#moments.set(queue, moments);
    return (moments.length * 1_000) / Math.min(rateOverMs, Math.max(1_000, now - this.#startedAt));
  }

  /** Wraps each attempt, to count the running ones and see their errors. */
  readonly middleware: Middleware = async (context, next) => {
    const queue = queueOf(context.kind);
    this.#busy[queue] += 1;
    try {
      return await next();
    } catch (error) {
      // An error of an aborted handler does not count as a failure.
      if (!context.signal.aborted) this.#reportFailure(context, error);
      throw error;
    } finally {
      this.#busy[queue] -= 1;
    }
  };

  follow(worker: Worker): void {
    worker.on("settled", ({ kind, state, outcome }) => {
      if (state === "succeeded") this.countSuccess(kind);
      if (state === "cancelled") this.#feed.add("plain", `${kind}: cancelled by its handler, on purpose`);
      if (outcome === "snoozed") this.#feed.add("plain", `${kind}: snoozed, no attempt spent`);
      if (outcome === "parked") this.#feed.add("plain", `${kind}: parked for review, no attempt spent`);
    });
    worker.on("leaseLost", ({ kind }) => {
      this.#feed.add("bad", `${kind}: the lease was lost, and the late outcome refused`);
    });
    worker.on("slow", ({ kind, ms }) =>
      this.#feed.add("wait", `${kind}: running for ${(ms / 1_000).toFixed(1)} s, which is slow for its kind`),
    );
    worker.on("blocked", ({ ms }) =>
      this.#feed.add("wait", `the event loop was blocked for ${Math.round(ms)} ms`),
    );
  }

  /** Also called for the helper, which reports its successes by message. */
  countSuccess(kind: string): void {
    const queue = queueOf(kind);
    this.#succeeded[queue] += 1;
    this.#moments.get(queue)?.push(performance.now());
  }

  #reportFailure({ kind, attempt, maxAttempts }: HandlerContext, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof RateLimitedError) {
      this.#feed.add("wait", `${kind}: ${message}; waits at least ${Number(error.retryAfter) / 1_000} s`);
    } else if (error instanceof PermanentError) {
      this.#feed.add("bad", `${kind}: ${message}; dead at once`);
    } else if (attempt >= maxAttempts) {
      this.#feed.add("bad", `${kind}: ${message}; its last attempt failed, so it is dead`);
    } else {
      this.#feed.add("wait", `${kind}: ${message}; attempt ${attempt} failed`);
    }
  }
}

function zeros(): Record<Queue, number> {
  return Object.fromEntries(queues.map((queue) => [queue, 0])) as Record<Queue, number>;
}
