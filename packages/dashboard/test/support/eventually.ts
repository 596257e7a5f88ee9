import { expect } from "vitest";

/** What will be so: asked again until it is. The usual second is too short for a browser on a busy machine. */
export function eventually<T>(ask: () => T | Promise<T>) {
  return expect.poll(ask, { timeout: 60_000 });
}
