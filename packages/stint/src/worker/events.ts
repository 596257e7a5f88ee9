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
  /** The trace it belongs to, if there is one. */
  readonly traceId?: string;
};

/** A job as the events `failed` and `dead` describe it. Without its payload, which may hold secrets. */
export type FailedJob = AttemptEvent & {
  readonly queue: string;
  readonly tenant: string | null;
  readonly tags: readonly string[];
};

export type FailedEvent = {
  /**
   * What the handler threw. `TimedOutError` after a timeout, `LeaseLostError` if another worker owned the job,
   * `CrashedError` if its worker died, `HandlerCrashedError` if the thread or process of an isolated handler did. A thrown value that is not an error is wrapped in an `Error` that describes it.
   */
  readonly error: Error;
  readonly job: FailedJob;
  readonly outcome: "failed" | "timed-out" | "lease-lost" | "crashed";
  /** The state of the job after it; null if another worker decides that. */
  readonly state: JobState | null;
  /** How long the attempt ran; null if its worker died. */
  readonly ms: number | null;
};

export type DeadEvent = {
  /** The error of the last attempt. */
  readonly error: Error;
  readonly job: FailedJob;
  readonly outcome: FailedEvent["outcome"];
  readonly reason: string;
};

/** The events of a worker. An error thrown by a listener is logged and has no other effect. */
export type WorkerEvents = {
  started: { worker: string };
  stopping: { worker: string; running: number };
  stopped: StopReport;
  claimed: { jobs: readonly { id: string; kind: string }[] };
  /** The handler of an attempt is about to be called. */
  began: AttemptEvent;
  /** An attempt ended and its outcome was recorded. */
  settled: AttemptEvent & {
    outcome: AttemptOutcome;
    state: string;
    ms: number;
    /** The failure, if there was one. */
    error?: Failure;
  };
  /** An attempt failed in any way. The worker that rescues the job reports a crash. */
  failed: FailedEvent;
  /** A job is dead. Follows `failed` of its last attempt. */
  dead: DeadEvent;
  /** An attempt ended, but another worker owned the job: nothing was recorded. */
  leaseLost: AttemptEvent & { epoch: number };
  /** A job whose worker stopped responding was rescued. */
  rescued: Rescued;
  /** No worker serves the kinds or queues of these waiting jobs. */
  unserved: readonly Unserved[];
  /** The event loop was blocked. Leases were renewed meanwhile; nothing else was done. */
  blocked: { ms: number; kinds: readonly string[] };
  /** An attempt runs longer than usual for its kind, or is close to its timeout. Emitted once per attempt. */
  slow: {
    id: string;
    kind: string;
    queue: string;
    /** How long it has run. */
    ms: number;
    /** The p95 of its kind; null while too few runs have ended to know it. */
    p95Ms: number | null;
    because: Slowness;
  };
  /**
   * A handler has reported no step, checkpoint, progress or log line for longer than the `stallAfter` of its kind. Emitted again only after
   * it has reported something.
   */
  stalled: {
    id: string;
    kind: string;
    queue: string;
    /** How long it has reported nothing. */
    ms: number;
    stallAfterMs: number;
  };
  /** A handler kept running after its signal aborted and its `abort` time was over. Its slot stays taken. */
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
  stalled: true,
  stuck: true,
};

/** A listener for any other name would never be called. */
export const workerEventNames = Object.keys(names) as readonly (keyof WorkerEvents)[];

export type StopReport = {
  worker: string;
  /** How many attempts ended during the drain. */
  drained: number;
  /** How many jobs were released with no attempt spent. */
  released: number;
  ms: number;
};
