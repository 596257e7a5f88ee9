/** The longest delay a timer takes; with anything longer it fires at once. */
export const longestTimerMs = 2 ** 31 - 1;

export type SleepOptions = {
  /** Let the process end while this sleeps. */
  unref?: boolean;
};

/** Wait, for as long as it takes or until the signal aborts, whichever is first. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal, { unref = false }: SleepOptions = {}): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    let restMs = ms > 0 ? ms : 0;
    let timer: NodeJS.Timeout;

    const end = () => {
      clearTimeout(timer);
      // A signal that lives as long as the worker would otherwise gather one listener per sleep.
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
 * A sleep that can be ended early from outside.
 *
 * A wake that comes while nobody waits is kept for the next wait. Without that, one that comes between
 * "there is no work" and "now I wait" would be lost, and the job it stood for would wait for the poll.
 */
export class Wakeable {
  #kept = false;
  #waiters = new Set<AbortController>();

  /** Wait for a wake, at most `maxMs`. True if a wake ended it, false for time or the signal. */
  async wait(maxMs: number, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted === true) return false;
    if (this.#kept) {
      this.#kept = false;
      return true;
    }

    const woken = new AbortController();
    this.#waiters.add(woken);
    const stop = () => {
      // A wake from here on is for the next wait; this one no longer takes it.
      this.#waiters.delete(woken);
      woken.abort("stopped");
    };
    signal?.addEventListener("abort", stop, { once: true });
    await sleep(maxMs, woken.signal);
    signal?.removeEventListener("abort", stop);
    this.#waiters.delete(woken);
    return woken.signal.reason === "woken";
  }

  /** End every wait, or the next one if there is none now. */
  wake(): void {
    if (this.#waiters.size === 0) this.#kept = true;
    for (const waiter of this.#waiters) waiter.abort("woken");
    this.#waiters.clear();
  }
}

/** Wait for the work, but no longer than `ms` or until the signal aborts. True if the work ended first. Leaves no timer behind. */
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

/** How long to let others gather after something that took so long: twice that, 10 ms at most. */
export function pauseAfter(tookMs: number): number {
  return Math.min(2 * tookMs, 10);
}

/** A rest of about this length: workers that started together must not come back together. */
export function jitter(ms: number): number {
  return ms * (0.8 + 0.4 * Math.random());
}
