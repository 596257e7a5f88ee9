import { expect } from "vitest";

/** Polls until the expectation holds. The default of one second is too short for a browser on a busy machine. */
export function eventually<T>(read: () => T | Promise<T>) {
  return expect.poll(read, { timeout: 60_000 });
}
