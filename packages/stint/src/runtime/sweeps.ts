/** The part of the time that sweeps may take. */
const share = 0.05;
/** What they may take beyond that at once, after a time with few. A worker that has just started has had none. */
const allowanceMs = 100;
/** One that took longer was held up by something else, a lock or a lost connection, and is counted as if it had taken this. */
const longestMs = 1_000;

/**
 * When to look at everything instead of only at what should be new. Sweeps take a twentieth of the time, so that costly ones
 * cannot crowd out the work and cheap ones keep nothing waiting: the next may come twenty times as long after the last as
 * that one took, and never later than twenty seconds.
 */
export class Sweeps {
  #spentMs = 0;
  #at = 0;

  /** How long until the next sweep may be, from `at` on. */
  inMs(at: number): number {
    return Math.max(this.#spentBy(at) - allowanceMs, 0) / share;
  }

  /** A sweep was sent and answered. */
  done(sentAt: number, answeredAt: number): void {
    this.#spentMs = this.#spentBy(answeredAt) + Math.min(answeredAt - sentAt, longestMs);
    this.#at = answeredAt;
  }

  #spentBy(at: number): number {
    return Math.max(this.#spentMs - share * (at - this.#at), 0);
  }
}
