import type { ClientBase } from "pg";

/** The addresses of the stores of one run. Each system gets its own database. */
export type Stores = {
  /** Postgres, in the system's own database. */
  readonly postgres: string;
  readonly redisPort: number | undefined;
};

export const configs = ["default", "fast"] as const;
export type Config = (typeof configs)[number];

/** About 100 bytes as JSON, the same for every system. */
export type Payload = {
  readonly n: number;
  /** The intended enqueue time, in ms of the clock shared by all processes (`clock.ts`). 0: latency is not measured. */
  readonly at: number;
  /** How often the handler fails before it succeeds. */
  readonly failures?: number;
  readonly filler: string;
};

export type EnqueueSettings = {
  /** Lower runs first, as in Stint; adapters negate it where a peer runs higher first. */
  readonly priority?: number;
};

/** A tree of jobs, each of which runs after its children: a root with this many groups, or with the leaves themselves if there are no groups. */
export type FlowShape = { readonly groups: number; readonly leaves: number };

/** How many jobs a tree has. */
export function jobsIn({ groups, leaves }: FlowShape): number {
  return groups === 0 ? 1 + leaves : 1 + groups + groups * leaves;
}

/** The jobs of one large tenant, enqueued before those of many small ones. `fair`: the queue shares its workers among them. */
export type TenantLoad = {
  readonly large: number;
  readonly small: number;
  readonly jobsOfSmall: number;
  readonly fair: boolean;
};

/** So many jobs may start in so many milliseconds, over all workers. */
export type StartRate = { readonly limit: number; readonly perMs: number };

/** The jobs that `fill` creates: ready now, scheduled for tomorrow, or succeeded. */
export type FillState = "ready" | "scheduled" | "finished";

/**
 * One system under test, as one process uses it. Runs in an actor (a child process), never in the runner. A method without an
 * equivalent in the system throws `notOffered(…)`, and the cell is left out.
 */
export type Client = {
  /** Install the schema where it is missing, and empty the store. */
  prepare(): Promise<void>;
  enqueueOne(payload: Payload, settings?: EnqueueSettings): Promise<unknown>;
  enqueueBulk(payloads: readonly Payload[]): Promise<unknown>;
  /** `tx` is a transaction of the caller. */
  enqueueInTransaction(tx: ClientBase, payload: Payload): Promise<unknown>;
  /** The quickest way to create `count` jobs as the system itself would store them; may be SQL. Ends with ANALYZE, as on a running server. */
  fill(count: number, state: FillState): Promise<void>;
  /**
   * Let at most this many of the filled jobs run at once, over all workers. Called after `fill`. Left out: the system has no such limit.
   */
  limit?(max: number): Promise<void>;
  /** Whether the store still holds a job that is ready, running or waiting for its retry. Jobs scheduled for tomorrow do not count. */
  pending(): Promise<boolean>;
  /** Start a worker; resolves when it has started. */
  work(onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Start a worker that keeps to this rate. Left out: the system has no rate over all workers. */
  workAtRate?(rate: StartRate, onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Start a worker whose handler runs this many durable steps in sequence. Left out: the system has no steps. */
  workSteps?(steps: number, onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Enqueue a tree of jobs. Left out: the system has no jobs that wait for others. */
  enqueueFlow?(shape: FlowShape): Promise<void>;
  /** Enqueue jobs of tenants, each with its number and the time 1, so that the start of every one is recorded. Left out: no such scenario. */
  enqueueTenants?(load: TenantLoad): Promise<void>;
  /** Start a worker for trees of jobs, where it differs from `work`. */
  workFlows?(onJob: (payload: Payload) => Promise<void>): Promise<void>;
  /** Stop the worker, if there is one, and close every connection. */
  close(): Promise<void>;
};

/** The type of the export `open` of a file in `systems/`. */
export type OpenClient = (stores: Stores, config: Config) => Promise<Client>;

export class NotOfferedError extends Error {}

/** For a method without an equivalent in the system. */
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
