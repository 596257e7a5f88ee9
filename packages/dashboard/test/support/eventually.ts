import { expect } from "vitest";

/** Polls until the expectation holds. The default of one second is too short for a browser on a busy machine. */
export function eventually<T>(ask: () => T | Promise<T>) {
  return expect.poll(ask, { timeout: 60_000 });
}
