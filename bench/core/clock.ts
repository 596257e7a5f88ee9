/** Milliseconds of the monotonic clock, which every process of a machine shares: times of two processes may be compared. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
