import type { Client as PgClient } from "pg";
import type { Actor, SpawnOptions } from "../actor/spawn.ts";
import type { SystemName } from "../systems/index.ts";
import type { Config } from "./types.ts";

/** One way of running a scenario. Scenarios add what they need to it. */
export type Variant = {
  /** As it stands in the results, such as "2 processes". */
  readonly name: string;
};

/** Which of the two Node versions a cell's actors run on. Peers always run on 24; Stint and the ceiling on the one that runs us. */
export type NodeVersion = "own" | "24";

/** What is measured at one go: one system, in one config, in one variant. */
export type Cell<V extends Variant = Variant> = {
  readonly system: SystemName;
  readonly config: Config;
  readonly variant: V;
  readonly round: number;
  readonly quick: boolean;
};

/** One value. Those of all rounds with the same variant and unit become one row. */
export type Measurement = {
  /** Follows the variant's name in the results, as in "10 callers p50". */
  readonly suffix?: string;
  readonly unit: string;
  readonly value: number;
};

/** What a scenario may use while it measures. Everything spawned or connected here ends with the cell. */
export type Bench = {
  /** An actor of the cell's system and config, connected and idle. */
  spawn(options?: SpawnOptions): Promise<Actor>;
  /** A bare connection to the database of the cell's system. */
  connect(): Promise<PgClient>;
  /** Process id of the Postgres server, and of Redis where there is one. */
  readonly postgresPid: number;
  readonly redisPid: number | undefined;
  /** Where this cell's system keeps its jobs, for scenarios that start processes of their own. */
  readonly stores: { readonly postgres: string; readonly redisPort: number | undefined };
  /** The binary of each Node version. */
  readonly nodes: Readonly<Record<NodeVersion, string>>;
  /** A line for the reader, such as "31 jobs ran twice". Shown with the scenario's table, not in the JSON. */
  note(line: string): void;
};

/** A file in `scenarios/` exports one of these, and `scenarios/index.ts` lists it. */
export type Scenario<V extends Variant = Variant> = {
  readonly name: string;
  /** What it measures, in one line. */
  readonly what: string;
  /** A cell that takes longer has failed. Default 90, in a quick run 30. */
  readonly deadlineSeconds?: number;
  variants(quick: boolean): readonly V[];
  /** Whether this cell is run at all. */
  includes(cell: Omit<Cell<V>, "round">): boolean;
  measure(bench: Bench, cell: Cell<V>): Promise<readonly Measurement[]>;
};

/** Keeps the type of a scenario's own variants inside the scenario. */
export function defineScenario<V extends Variant>(scenario: Scenario<V>): Scenario {
  return scenario;
}
