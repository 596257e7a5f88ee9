import type { MessagePort } from "node:worker_threads";
import type { Connection } from "../db/connection.ts";
import type { Fence } from "../model/job.ts";

/**
 * The stage of each job of a claim, one byte each, in memory that both threads share. Only the main thread begins and ends jobs.
 * Either thread may release a waiting job; an atomic exchange of the byte decides which of them was first.
 */
export const stage = {
  /** Claimed ahead of a free slot. */
  waiting: 0,
  running: 1,
  /** Recorded, or owned by another worker. */
  over: 2,
  /** Released by the lease thread; must not begin here. */
  released: 3,
} as const;

/** The leases of one claim, job by job in the same order. Times are monotonic milliseconds, which both threads share. */
export type LeasedClaim = {
  readonly leaseId: string;
  /** When the claim was sent: no lease of it can end before this plus its length. */
  readonly sentAt: number;
  /** Every attempt of the process has its own number, from 1. Those of a claim are consecutive. */
  readonly firstSerial: number;
  readonly jobs: readonly string[];
  readonly epochs: readonly number[];
  readonly kinds: readonly string[];
  readonly leaseMs: readonly number[];
  /** Never renewed past this: a handler that hangs must not keep its job for ever. */
  readonly renewUntil: number[];
  /** The part of `chunk` from `offset` on. */
  readonly stages: Uint8Array<SharedArrayBuffer>;
  readonly chunk: Uint8Array<SharedArrayBuffer>;
  readonly offset: number;
};

export type LeaseThreadData = {
  readonly connection: Connection;
  /** Whether the password comes from a function, which only the main thread can call. */
  readonly asksPassword: boolean;
  readonly schema: string;
  readonly prepare: boolean | undefined;
  readonly applicationName: string;
  /** Whether to wake workers for released jobs. */
  readonly wake: boolean;
  /** How long a claimed job may wait for a slot before it is released. */
  readonly prefetchMs: number;
  /** Written by the main thread: [0] the time of its last heartbeat in ms, [1] the serial number of the attempt whose handler is on its stack. */
  readonly heartbeat: SharedArrayBuffer;
  /** The port of a `ClaimChannel`. The thread reads it whenever its loop turns. */
  readonly claims: MessagePort;
  /** Written by the thread: [0] is 1 while its loop does not turn, so that a new claim must wake it. */
  readonly asleep: SharedArrayBuffer;
};

export type ToThread =
  /** A claim was sent while the thread was asleep. */
  | { type: "claimed" }
  | { type: "renew" }
  /** The attempt with this serial number may run longer. */
  | { type: "extend"; serial: number; renewUntil: number }
  /** What the connection's password function returned; undefined if it threw. */
  | { type: "password"; password: string | undefined }
  | { type: "stop" };

export type FromThread =
  | { type: "lost"; fence: Fence }
  | { type: "cancelled"; fence: Fence }
  /** Waiting jobs were released and must not begin. Those that were still ours are ready again in these queues. */
  | { type: "released"; queues: readonly string[] }
  /** The thread is about to connect and needs the result of the password function. */
  | { type: "password-wanted" }
  /** Leases can be renewed: the first time, and again after each failure. */
  | { type: "ready" }
  /** Leases cannot be renewed now. The thread retries. */
  | { type: "failed"; message: string; transient: boolean }
  | { type: "blocked"; ms: number; kinds: readonly string[] };
