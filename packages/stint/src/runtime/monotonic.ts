// Constant for a thread. A read of it costs more than the clock.
const { timeOrigin } = performance;

/** Process-wide monotonic milliseconds, the same on every thread. */
export function monotonicMs(): number {
  return timeOrigin + performance.now();
}
