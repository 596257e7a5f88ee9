/**
 * What an enqueue did:
 * - `created`: a new job;
 * - `existing`: another job holds the dedupe key, and nothing was changed;
 * - `replaced`: the waiting job with the dedupe key has this payload or run time now;
 * - `deferred`: the work runs later. The run time of the waiting job moved back, or a new job waits until the running one has ended.
 */
export const enqueueStatuses = ["created", "existing", "replaced", "deferred"] as const;

export type EnqueueStatus = (typeof enqueueStatuses)[number];

/** Every status but `created`: counted by the database, because SQL callers have no process that counts. */
export const duplicateStatuses = ["existing", "replaced", "deferred"] as const satisfies EnqueueStatus[];

export type DuplicateStatus = (typeof duplicateStatuses)[number];
