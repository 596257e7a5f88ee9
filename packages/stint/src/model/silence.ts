/** A worker says that it lives every 25 s. One that has missed two of these is taken for gone, though it may come back. */
export const silentAfterMs = 60_000;

/** Asleep on purpose it says nothing, and a wake reaches it all the same. */
export function isSilent({ asleep, silentMs }: { asleep: boolean; silentMs: number }): boolean {
  return !asleep && silentMs > silentAfterMs;
}
