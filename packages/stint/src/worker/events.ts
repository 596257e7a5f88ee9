import type { Failure } from "../model/failure.ts";
import type { AttemptOutcome } from "../model/job.ts";
import type { JobState } from "../model/state.ts";
import type { Slowness } from "../model/slow.ts";
import type { Unserved } from "../sql/kinds.ts";
import type { Rescued } from "../sql/rescue.ts";

/** Which attempt an event is about. */
export type AttemptEvent = {
  readonly id: string;
  readonly kind: string;
  readonly key: string | null;
  readonly attempt: number;
  /** Of the trace it belongs to, if there is one. */
  readonly traceId?: string;
};

/** A job as the events `failed` and `dead` describe it. Its payload is not part of it: payloads may hold secrets. */
export type FailedJob = AttemptEvent & {
  readonly queue: string;
  readonly tenant: string | null;
  readonly tags: readonly string[];
};

export type FailedEvent = {
  /**
   * What the handler threw. `TimedOutError` after a timeout, `LeaseLostError` if the job was no longer this worker's,
   * `CrashedError` if its worker died. A thrown value that is no error comes as an `Error` that describes it.
   */
  readonly error: Error;
  readonly job: FailedJob;
  readonly outcome: "failed" | "timed-out" | "lease-lost" | "crashed";
  /** What became of the job; null if another worker decides that. */
  readonly state: JobState | null;
  /** How long the attempt ran; null if its worker died. */
  readonly ms: number | null;
};

export type DeadEvent = {
  /** Of the last attempt. */
  readonly error: Error;
  readonly job: FailedJob;
  readonly outcome: FailedEvent["outcome"];
  readonly reason: string;
};

/** Everything a worker tells its listeners. A listener that throws is logged and harms nothing. */
export type WorkerEvents = {
  started: { worker: string };
  stopping: { worker: string; running: number };
  stopped: StopReport;
  claimed: { jobs: readonly { id: string; kind: string }[] };
  /** An attempt begins: its handler is about to be called. */
  began: AttemptEvent;
  /** An attempt ended and its outcome was recorded. */
  settled: AttemptEvent & {
    outcome: AttemptOutcome;
    state: string;
    ms: number;
    /** What went wrong, if something did. */
    error?: Failure;
  };
  /** An attempt failed, in whatever way. Crashes are reported by the worker that took the job back. */
  failed: FailedEvent;
  /** A job is dead. Comes after `failed` of its last attempt. */
  dead: DeadEvent;
  /** An attempt ended, but the job was no longer this worker's: nothing was recorded. */
  leaseLost: AttemptEvent & { epoch: number };
  /** A job whose worker was silent was taken back. */
  rescued: Rescued;
  /** Jobs wait that no worker serves. */
  unserved: readonly Unserved[];
  /** The event loop stood still. Leases were renewed meanwhile; nothing else was done. */
  blocked: { ms: number; kinds: readonly string[] };
  /** An attempt takes longer than is usual for its kind, or most of the time it may take. Told once of each. */
  slow: {
    id: string;
    kind: string;
    queue: string;
    /** How long it has run. */
    ms: number;
    /** What 95 of 100 runs of its kind stay below; null while too few have ended to know. */
    usualMs: number | null;
    because: Slowness;
  };
  /** A handler went on after its signal aborted and its time to end was over. Its slot stays taken. */
  stuck: { id: string; kind: string };
};

const names: Record<keyof WorkerEvents, true> = {
  started: true,
  stopping: true,
  stopped: true,
  claimed: true,
  began: true,
  settled: true,
  failed: true,
  dead: true,
  leaseLost: true,
  rescued: true,
  unserved: true,
  blocked: true,
  slow: true,
  stuck: true,
};

/** For refusing a listener that would never be called. */
export const workerEventNames = Object.keys(names) as readonly (keyof WorkerEvents)[];

export type StopReport = {
  worker: string;
  /** How many attempts ended by themselves while draining. */
  drained: number;
  /** How many were handed back unspent. */
  released: number;
  ms: number;
};
