import { onAbort } from "./on-abort.ts";

/** The longest delay of a timer. Node fires a timer with a longer delay at once. */
export const longestTimerMs = 2 ** 31 - 1;

export type SleepOptions = {
  /** Do not keep the process alive for this sleep. */
  unref?: boolean;
};

/** A timer of any length; `ms` below zero is the next turn. */
class Timer {
  readonly #onEnd: () => void;
  readonly #unref: boolean;
  #restMs: number;
  #timeout: NodeJS.Timeout | undefined;

  constructor(ms: number, onEnd: () => void, unref = false) {
    this.#restMs = ms > 0 ? ms : 0;
    this.#onEnd = onEnd;
    this.#unref = unref;
    this.#next();
  }

  clear(): void {
    clearTimeout(this.#timeout);
  }

  #next(): void {
    const partMs = Math.min(this.#restMs, longestTimerMs);
    this.#restMs -= partMs;
    this.#timeout = setTimeout(this.#restMs > 0 ? () => this.#next() : this.#onEnd, partMs);
    if (this.#unref) this.#timeout.unref();
  }
}

/** Wait for `ms`, of any length, or until the signal aborts. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal, { unref = false }: SleepOptions = {}): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      timer.clear();
      // A signal that lives as long as the worker would otherwise collect one callback per sleep.
      takeBack?.();
      resolve();
    };
    const timer = new Timer(ms, end, unref);
    const takeBack = signal === undefined ? undefined : onAbort(signal, end);
  });
}

/**
 * A sleep that another part of the program can end early.
 *
 * A wake without a waiter is kept for the next wait. Otherwise a wake between "there is no work" and the
 * start of the wait would be lost, and its job would wait for the next poll.
 *
 * The claim loop waits here once per claim. An AbortController for each wait took a tenth of an idle worker's processor time.
 */
export class Wakeable {
  #kept = false;
  readonly #waiters = new Set<(woken: boolean) => void>();

  /** Wait for a wake, at most `maxMs`. Returns true after a wake, false after the time or an abort. */
  wait(maxMs: number, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted === true) return Promise.resolve(false);
    if (this.#kept) {
      this.#kept = false;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const stop = this.#until(maxMs, (woken) => {
        takeBack?.();
        resolve(woken);
      });
      const takeBack = signal === undefined ? undefined : onAbort(signal, stop);
    });
  }

  /** The same with a callback, which is called during the wake, and not after it. False: there was a wake already, and nothing is called. */
  whenWoken(maxMs: number, onEnd: (woken: boolean) => void): boolean {
    const wasKept = this.#kept;
    this.#kept = false;
    if (!wasKept) this.#until(maxMs, onEnd);
    return !wasKept;
  }

  /** Returns a function that ends the wait without a wake. */
  #until(maxMs: number, onEnd: (woken: boolean) => void): () => void {
    const end = (woken: boolean): void => {
      // Later wakes are for the next wait.
      this.#waiters.delete(end);
      timer.clear();
      onEnd(woken);
    };
    const stop = (): void => end(false);
    const timer = new Timer(maxMs, stop);
    this.#waiters.add(end);
    return stop;
  }

  /** End every current wait, or the next one if there is none. */
  wake(): void {
    if (this.#waiters.size === 0) this.#kept = true;
    for (const end of this.#waiters) end(true);
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
  const takeBack = signal === undefined ? undefined : onAbort(signal, stop);
  if (signal?.aborted === true) stop();
  try {
    return await Promise.race([
      Promise.resolve(work).then(() => true),
      sleep(ms, over.signal).then(() => false),
    ]);
  } finally {
    takeBack?.();
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
