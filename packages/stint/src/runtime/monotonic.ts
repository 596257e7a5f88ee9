/** Process-wide monotonic milliseconds, the same on every thread. */
export function monotonicMs(): number {
  return performance.timeOrigin + performance.now();
}
