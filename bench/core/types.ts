import type { ClientBase } from "pg";

/** Where the stores of one run are. A system gets the address of its own database. */
export type Stores = {
  /** Postgres, in a database of the system's own. */
  readonly postgres: string;
  readonly redisPort: number | undefined;
};

export const configs = ["default", "fast"] as const;
export type Config = (typeof configs)[number];

/** About 100 bytes as JSON, the same for every system. */
export type Payload = {
  readonly n: number;
  /** When the job was meant to be enqueued, in ms of the clock all processes share (`clock.ts`). 0: nobody asks. */
  readonly at: number;
  /** The handler fails this often before it succeeds. */
  readonly failures?: number;
  readonly filler: string;
};

export type EnqueueSettings = {
  /** Lower runs first, as in Stint; adapters turn it round where a peer counts the other way. */
  readonly priority?: number;
};

/** What `fill` makes: jobs that may run now, jobs of tomorrow, jobs that have succeeded. */
export type FillState = "ready" | "scheduled" | "finished";

/**
 * One system under test, as one process uses it. Lives in an actor (a child process), never in the runner. A method that a
 * system has no equivalent for throws `notOffered(…)`, and the cell is left out.
 */
export type Client = {
  /** Install the schema where it is missing, and empty the store. */
  prepare(): Promise<void>;
  enqueueOne(payload: Payload, settings?: EnqueueSettings): Promise<unknown>;
  enqueueBulk(payloads: readonly Payload[]): Promise<unknown>;
  /** `tx` is inside a transaction of the caller's. */
  enqueueInTransaction(tx: ClientBase, payload: Payload): Promise<unknown>;
  /** The quickest honest way to have `count` jobs; may be SQL. Ends with the statistics a running server would have. */
  fill(count: number, state: FillState): Promise<void>;
  /** Whether the store still holds a job that is ready, running or waits for its retry. Jobs of tomorrow do not count. */
  pending(): Promise<boolean>;
  /** Start a worker; resolves when it is started. */
  work(onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Start a worker whose handler runs so many durable steps, one after the other. Left out: the system has no steps. */
  workSteps?(steps: number, onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Stop the worker, if there is one, and close every connection. */
  close(): Promise<void>;
};

/** What a file in `systems/` exports as `open`. */
export type OpenClient = (stores: Stores, config: Config) => Promise<Client>;

export class NotOfferedError extends Error {}

/** For a method a system has no equivalent for. */
export function notOffered(system: string, what: string): NotOfferedError {
  return new NotOfferedError(`${system} offers no ${what}`);
}

/** One line of the results. */
export type Row = {
  readonly scenario: string;
  readonly variant: string;
  readonly system: string;
  readonly config: Config;
  readonly unit: string;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly n: number;
};

export type Results = {
  readonly machine: string;
  readonly date: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
};
