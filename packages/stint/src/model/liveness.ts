/** A worker reports every 25 s. After two missed reports it counts as unresponsive; it may still come back. */
export const unresponsiveAfterMs = 60_000;

/** A worker in sleep mode reports nothing on purpose, and a wake still reaches it. */
export function isUnresponsive({
  asleep,
  heartbeatAgeMs,
}: {
  asleep: boolean;
  heartbeatAgeMs: number;
}): boolean {
  return !asleep && heartbeatAgeMs > unresponsiveAfterMs;
}
