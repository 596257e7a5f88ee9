import type { Connection } from "../db/connection.ts";
import type { Fence } from "../model/job.ts";

/** A lease the thread keeps. Times are monotonic milliseconds of the process, which both threads share. */
export type Held = Fence & {
  readonly kind: string;
  /** A number of its own for each running attempt of the process, from 1. */
  readonly serial: number;
  readonly leaseMs: number;
  /** When the claim that took it was sent: its lease cannot end before this plus `leaseMs`. */
  readonly sentAt: number;
  /** Never renewed past this: a wedged handler must not keep its job for ever. */
  readonly renewUntil: number;
};

export type LeaseThreadData = {
  readonly connection: Connection;
  readonly schema: string;
  readonly prepare: boolean;
  readonly applicationName: string;
  /** Written by the main thread while it turns: [0] its last sign of life in ms, [1] the serial number of the attempt whose handler it is in. */
  readonly pulse: SharedArrayBuffer;
};

export type ToThread =
  | { type: "hold"; leases: readonly Held[] }
  | { type: "drop"; job: string; epoch: number }
  | { type: "renew" }
  | { type: "stop" };

export type FromThread =
  | { type: "lost"; job: string; epoch: number }
  | { type: "cancelled"; job: string; epoch: number }
  | { type: "trouble"; message: string }
  | { type: "blocked"; ms: number; kinds: readonly string[] };
