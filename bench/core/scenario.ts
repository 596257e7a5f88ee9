import type { Client as PgClient } from "pg";
import type { Actor, SpawnOptions } from "../actor/spawn.ts";
import type { SystemName } from "../systems/index.ts";
import type { Config } from "./types.ts";

/** One variation of a scenario. Scenarios add their own fields. */
export type Variant = {
  /** As written in the results, such as "2 processes". */
  readonly name: string;
};

/** The Node version of a cell's actors. Peers always run on 24; Stint and the ceiling on the version that runs the benchmark. */
export type NodeVersion = "own" | "24";

/** The unit of measurement: one system, in one config, in one variant. */
export type Cell<V extends Variant = Variant> = {
  readonly system: SystemName;
  readonly config: Config;
  readonly variant: V;
  readonly round: number;
  readonly quick: boolean;
};

/** One value. Values of all rounds with the same variant, suffix and unit become one row. */
export type Measurement = {
  /** Follows the variant's name in the results, as in "10 callers p50". */
  readonly suffix?: string;
  readonly unit: string;
  readonly value: number;
};

/** What a scenario may use while it measures. Actors and connections made here are ended with the cell. */
export type Bench = {
  /** An actor of the cell's system and config, connected and idle. */
  spawn(options?: SpawnOptions): Promise<Actor>;
  /** A bare connection to the database of the cell's system. */
  connect(): Promise<PgClient>;
  /** Process id of the Postgres server, and of Redis if it runs. */
  readonly postgresPid: number;
  readonly redisPid: number | undefined;
  /** The stores of this cell's system, for scenarios that start their own processes. */
  readonly stores: { readonly postgres: string; readonly redisPort: number | undefined };
  /** The binary of each Node version. */
  readonly nodes: Readonly<Record<NodeVersion, string>>;
  /** A line shown with the scenario's table, such as "31 jobs ran twice". It is not in the JSON. */
  note(line: string): void;
};

/** A file in `scenarios/` exports one of these, and `scenarios/index.ts` lists it. */
export type Scenario<V extends Variant = Variant> = {
  readonly name: string;
  /** One line that describes the measurement. */
  readonly what: string;
  /** The time limit of a cell; a cell that takes longer fails. Default 90, in a quick run 30. */
  readonly deadlineSeconds?: number;
  variants(quick: boolean): readonly V[];
  /** Whether to run this cell. */
  includes(cell: Omit<Cell<V>, "round">): boolean;
  measure(bench: Bench, cell: Cell<V>): Promise<readonly Measurement[]>;
};

/** Keeps the type of a scenario's own variants inside the scenario. */
export function defineScenario<V extends Variant>(scenario: Scenario<V>): Scenario {
  return scenario;
}
