/** The longest delay of a timer. Node fires a timer with a longer delay at once. */
export const longestTimerMs = 2 ** 31 - 1;

export type SleepOptions = {
  /** Do not keep the process alive for this sleep. */
  unref?: boolean;
};

/** Wait for `ms`, of any length, or until the signal aborts. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal, { unref = false }: SleepOptions = {}): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    let restMs = ms > 0 ? ms : 0;
    let timer: NodeJS.Timeout;

    const end = () => {
      clearTimeout(timer);
      // A signal that lives as long as the worker would otherwise collect one listener per sleep.
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const startTimer = () => {
      const partMs = Math.min(restMs, longestTimerMs);
      restMs -= partMs;
      timer = setTimeout(restMs > 0 ? startTimer : end, partMs);
      if (unref) timer.unref();
    };

    signal?.addEventListener("abort", end, { once: true });
    startTimer();
  });
}

/**
 * A sleep that another part of the program can end early.
 *
 * A wake without a waiter is kept for the next wait. Otherwise a wake between "there is no work" and the
 * start of the wait would be lost, and its job would wait for the next poll.
 */
export class Wakeable {
  #kept = false;
  #waiters = new Set<AbortController>();

  /** Wait for a wake, at most `maxMs`. Returns true after a wake, false after the time or an abort. */
  async wait(maxMs: number, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted === true) return false;
    if (this.#kept) {
      this.#kept = false;
      return true;
    }

    const woken = new AbortController();
    this.#waiters.add(woken);
    const stop = () => {
      // Later wakes are for the next wait.
      this.#waiters.delete(woken);
      woken.abort("stopped");
    };
    signal?.addEventListener("abort", stop, { once: true });
    await sleep(maxMs, woken.signal);
    signal?.removeEventListener("abort", stop);
    this.#waiters.delete(woken);
    return woken.signal.reason === "woken";
  }

  /** End every current wait, or the next one if there is none. */
  wake(): void {
    if (this.#waiters.size === 0) this.#kept = true;
    for (const waiter of this.#waiters) waiter.abort("woken");
    this.#waiters.clear();
  }
}

/** Wait until the work settles, at most `ms` or until the signal aborts. Returns true if the work settled first. Leaves no timer. */
export async function settledWithin(
  ms: number,
  work: Promise<unknown> | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const over = new AbortController();
  const stop = (): void => over.abort();
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted === true) stop();
  try {
    return await Promise.race([
      Promise.resolve(work).then(() => true),
      sleep(ms, over.signal).then(() => false),
    ]);
  } finally {
    signal?.removeEventListener("abort", stop);
    over.abort();
  }
}

/** How long to collect further items after a send of this duration: twice the duration, at most 10 ms. */
export function pauseAfter(tookMs: number): number {
  return Math.min(2 * tookMs, 10);
}

/** The delay, randomized by ±20 %, so that workers started together do not act together. */
export function jitter(ms: number): number {
  return ms * (0.8 + 0.4 * Math.random());
}
