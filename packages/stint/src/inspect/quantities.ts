/** Counts, depths, rates and percentiles: parts of the results of the inspector. */

/** A count up to a limit. `capped`: there are at least this many; `next`, if given, continues the count. */
export type Count = { readonly count: number; readonly capped: boolean; readonly next?: string };

/** The number of jobs in each live state, and of dead jobs. */
export type Depth = {
  readonly scheduled: number;
  readonly ready: number;
  readonly running: number;
  readonly retrying: number;
  readonly parked: number;
  readonly dead: number;
};

export const depthStates = [
  "scheduled",
  "ready",
  "running",
  "retrying",
  "parked",
  "dead",
] as const satisfies readonly (keyof Depth)[];

/** Events per second, over the last minute unless stated otherwise. */
export type Rates = {
  readonly arrived: number;
  readonly claimed: number;
  /** Jobs that ended. Retried and snoozed jobs have not. */
  readonly ended: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly retried: number;
  readonly dead: number;
};

export type Percentiles = {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
};
