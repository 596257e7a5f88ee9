import type { Failure } from "./failure.ts";
import type { ParkReason } from "./park-reasons.ts";
import type { JobState } from "./state.ts";

/** Identifies one attempt in every write. Pass it to downstream systems that can refuse a stale caller. */
export type Fence = { readonly job: string; readonly epoch: number; readonly leaseId: string };

/** The same text for the same fence. */
export function keyOfFence({ job, epoch, leaseId }: Fence): string {
  return `${job} ${epoch} ${leaseId}`;
}

export type AttemptOutcome =
  | "succeeded"
  | "failed"
  | "timed-out"
  | "crashed"
  | "released"
  | "snoozed"
  | "parked"
  | "cancelled";

/** One ended attempt, as the history keeps it. */
export type Attempt = {
  readonly epoch: number;
  readonly worker: string | null;
  readonly startedAt: Date | null;
  readonly endedAt: Date;
  readonly outcome: AttemptOutcome;
  readonly error?: Failure;
};

/** A job, live or finished. */
export type Job<Payload = unknown, Result = unknown> = {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly state: JobState;
  readonly priority: number;
  readonly runAt: Date;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly attempts: number;
  readonly maxAttempts: number | null;
  readonly crashes: number;
  readonly interruptions: number;
  /** How often the database failed the transaction of its handler. */
  readonly faults: number;
  readonly epoch: number;
  readonly run: number;
  readonly worker: string | null;
  readonly claimedAt: Date | null;
  readonly leaseUntil: Date | null;
  readonly cancelRequested: boolean;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** Why it is held back; null if it is not. A quarantined job keeps it while it runs. */
  readonly parkReason: ParkReason | null;
  /** It does not run after this time, but is cancelled; null: it may run at any time. */
  readonly expiresAt: Date | null;
  /** When a parked job becomes ready by itself; null if it does not. */
  readonly parkUntil: Date | null;
  /** Why it is parked, dead or cancelled, in words. */
  readonly reason: string | null;
  readonly payload: Payload;
  readonly result: Result | null;
  /** Every ended attempt, oldest first. Past twenty, the middle is dropped; the first and the latest stay. */
  readonly log: readonly Attempt[];
};

/** A job this worker has just claimed. */
export type ClaimedJob = {
  readonly fence: Fence;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  /** The database's text of the time, with microseconds. */
  readonly runAt: string;
  readonly createdAt: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number | null;
  readonly maxCrashes: number | null;
  readonly crashes: number;
  readonly faults: number;
  readonly run: number;
  readonly timeoutMs: number | null;
  /** When it expires, in milliseconds since 1970 by the database's clock; null: never. */
  readonly expiresAtMs: number | null;
  readonly leaseMs: number;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** The keys of its limits that come from its payload; null: its kind has no limits. */
  readonly limits: readonly string[] | null;
  /** As JSON text. Parsed when its handler is called: until then, and until its outcome is recorded, a text is less to keep. */
  readonly payload: string;
};
