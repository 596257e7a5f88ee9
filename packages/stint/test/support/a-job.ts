import type { Job } from "../../src/model/job.ts";

/** A ready job that was enqueued at `createdAt` and never claimed. */
export function aJob(createdAt: Date): Job {
  return {
    id: "019a8a2c-1f00-7000-8000-0123456789ab",
    kind: "send",
    queue: "mail",
    state: "ready",
    priority: 0,
    runAt: createdAt,
    createdAt,
    finishedAt: null,
    attempts: 0,
    maxAttempts: null,
    crashes: 0,
    interruptions: 0,
    faults: 0,
    expiresAt: null,
    epoch: 0,
    run: 1,
    worker: null,
    claimedAt: null,
    leaseUntil: null,
    cancelRequested: false,
    key: null,
    tenant: null,
    tags: [],
    meta: {},
    parkReason: null,
    parkUntil: null,
    reason: null,
    payload: null,
    result: null,
    log: [],
  };
}
