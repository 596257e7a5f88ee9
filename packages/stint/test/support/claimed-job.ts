import type { ClaimedJob } from "../../src/model/job.ts";
import { StageMemory } from "../../src/worker/claim-channel.ts";
import { ClaimLeases, type LeasedJob } from "../../src/worker/claim-leases.ts";

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
    expiresAtMs: null,
    leaseMs: 30_000,
    key: null,
    tenant: null,
    tags: [],
    meta: {},
    limits: null,
    payload: "null",
    ...own,
  };
}

/** The jobs of one claim, held by their leases. */
export function leasedJobs(jobs: readonly ClaimedJob[]): LeasedJob[] {
  const claim = {
    leaseId: "l",
    sentAt: 0,
    firstSerial: 1,
    jobs: jobs.map(({ fence }) => fence.job),
    epochs: jobs.map(() => 1),
    kinds: jobs.map(({ kind }) => kind),
    leaseMs: jobs.map(() => 30_000),
    renewUntil: jobs.map(() => 60_000),
    ...new StageMemory().allocate(jobs.length),
  };
  const leases = new ClaimLeases(claim, () => undefined);
  return jobs.map((job, index) => ({ job, leases, index }));
}
