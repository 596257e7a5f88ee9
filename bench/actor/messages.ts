import type { Config, Stores } from "../core/types.ts";
import type { SystemName } from "../systems/index.ts";
import type { TaskName } from "./tasks/index.ts";

/** The settings of an actor, passed as its only argument. */
export type ActorSettings = { system: SystemName; config: Config; stores: Stores };

export type ToActor = { id: number; task: TaskName; input: unknown };

export type FromActor =
  | { type: "ready"; importMs: number; openMs: number }
  | { type: "done"; id: number; output: unknown }
  | { type: "failed"; id: number | undefined; message: string; notOffered: boolean };
