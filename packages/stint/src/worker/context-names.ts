import type { HandlerContext } from "./handler.ts";

/** The properties of a job's context that are plain values, in single jobs and in batches. */
export const plainNames = [
  "id",
  "kind",
  "queue",
  "payload",
  "key",
  "attempt",
  "maxAttempts",
  "run",
  "createdAt",
  "tenant",
  "tags",
  "meta",
  "fence",
] as const satisfies readonly (keyof HandlerContext)[];
