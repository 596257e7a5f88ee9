import type { Connection } from "../db/connection.ts";
import type { Fence } from "../model/job.ts";

/**
 * Where each job of a claim stands, one byte each, in memory that both threads see. Only the main thread starts and ends
 * jobs; either may hand back one that still waits, and the byte decides who was first.
 */
export const stage = {
  /** Claimed ahead of a free slot. */
  waiting: 0,
  running: 1,
  /** Recorded, or not ours any more. */
  over: 2,
  /** Goes back to its queue, and must not start here. */
  released: 3,
} as const;

/** The leases of one claim, job by job in the same order. Times are monotonic milliseconds, which both threads share. */
export type LeasedClaim = {
  readonly leaseId: string;
  /** When the claim was sent: no lease of it can end before this plus its length. */
  readonly sentAt: number;
  /** Each attempt of the process has a number of its own, from 1; those of a claim follow one another. */
  readonly firstSerial: number;
  readonly jobs: readonly string[];
  readonly epochs: readonly number[];
  readonly kinds: readonly string[];
  readonly leaseMs: readonly number[];
  /** Never renewed past this: a wedged handler must not keep its job for ever. */
  readonly renewUntil: readonly number[];
  readonly stages: Uint8Array<SharedArrayBuffer>;
};

export type LeaseThreadData = {
  readonly connection: Connection;
  /** The password comes from a function, and is asked for by message. */
  readonly asksPassword: boolean;
  readonly schema: string;
  readonly prepare: boolean | undefined;
  readonly applicationName: string;
  /** Whether workers are to be told of jobs that went back. */
  readonly wake: boolean;
  /** How long a claimed job may wait for a slot before it is released. */
  readonly prefetchMs: number;
  /** Written by the main thread while it turns: [0] its last sign of life in ms, [1] the serial number of the attempt whose handler it is in. */
  readonly pulse: SharedArrayBuffer;
};

export type ToThread =
  | { type: "hold"; claims: readonly LeasedClaim[] }
  | { type: "renew" }
  /** What the connection's password function returned; undefined if it threw. */
  | { type: "password"; password: string | undefined }
  | { type: "stop" };

export type FromThread =
  | { type: "lost"; fence: Fence }
  | { type: "cancelled"; fence: Fence }
  /** Jobs that waited here for a slot are not to be begun. Those that were still ours are ready in these queues. */
  | { type: "released"; queues: readonly string[] }
  /** A connection is about to be made, and only the main thread can call the password function. */
  | { type: "password-wanted" }
  /** Leases can be renewed: the first time, and again after each failure. */
  | { type: "ready" }
  /** Leases cannot be renewed now. The thread tries again by itself. */
  | { type: "trouble"; message: string; transient: boolean }
  | { type: "blocked"; ms: number; kinds: readonly string[] };
