import type { ClaimedJob } from "../../src/model/job.ts";

/** A plain claimed job, with the fields that a test overrides. */
export function claimedJob(id: string, own: Partial<ClaimedJob> = {}): ClaimedJob {
  return {
    fence: { job: id, epoch: 1, leaseId: "l" },
    kind: "work",
    queue: "main",
    priority: 0,
    runAt: "2026-01-01 00:00:00+00",
    createdAt: "2026-01-01 00:00:00+00",
    attempt: 1,
    maxAttempts: null,
    maxCrashes: null,
    crashes: 0,
    faults: 0,
    run: 1,
    timeoutMs: null,
    leaseMs: 30_000,
    key: null,
    tenant: null,
    tags: [],
    meta: {},
    payload: null,
    weight: 4,
    ...own,
  };
}
