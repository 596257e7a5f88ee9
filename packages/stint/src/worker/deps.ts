import type { Connection } from "../db/connection.ts";
import type { Db } from "../db/db.ts";
import type { DeclaredQueues } from "../model/queue-settings.ts";
import type { DeclaredDependencies } from "../model/dependencies.ts";
import type { Telemetry } from "../model/telemetry.ts";
import type { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import type { CrashQuarantine } from "./crash-quarantine.ts";
import type { WorkerEvents } from "./events.ts";
import type { HandlerDeps } from "./handler-deps.ts";
import type { Leases } from "./leases.ts";
import type { Places } from "./places.ts";
import type { Metering } from "./metering.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { WorkerPauses } from "./pauses.ts";
import type { Pools } from "./pools.ts";
import type { Releaser } from "./releaser.ts";
import type { Settler } from "./settler.ts";
import type { Tokens } from "./tokens.ts";

/** What a worker needs of the client that made it. */
export type WorkerDeps = {
  readonly db: Db;
  readonly connection: Connection;
  readonly prepare: boolean | undefined;
  readonly wake: "auto" | "notify" | "none";
  readonly maxResultBytes: number;
  readonly version: string;
  readonly logger: Logger;
  readonly telemetry: Telemetry | undefined;
  /** Queue settings that code declares. Written when the worker starts. */
  readonly queues: DeclaredQueues;
  /** Dependencies that code declares beside those of its kinds. Written when the worker starts. */
  readonly dependencies: DeclaredDependencies;
  /** Hints from this process. Returns a function that stops them. */
  readonly listen: (listener: (hint: string) => void) => () => void;
  /** Report ended jobs to the waits of this process. */
  readonly onEnded: (ids: readonly string[]) => void;
  /** Wake every listening worker, in this process and in others. */
  readonly notify: (hints: readonly string[], jobs?: number) => void;
};

/** What the attempts of a worker need of it. */
export type AttemptDeps = HandlerDeps & {
  readonly worker: string;
  readonly telemetry: Telemetry | undefined;
  readonly options: ResolvedWorkerOptions;
  readonly pools: Pools;
  readonly leases: Pick<Leases, "hold" | "inHandler">;
  readonly settler: Pick<Settler, "settle">;
  readonly releaser: Pick<Releaser, "release" | "idle">;
  readonly quarantine: Pick<CrashQuarantine, "releaseSuspects">;
  readonly places: Pick<
    Places,
    "isLimited" | "needsPlaces" | "beginInShares" | "take" | "takeTokens" | "mayFree"
  >;
  readonly tokens: Pick<Tokens, "requireCosts" | "isStale" | "threw">;
  readonly pauses: Pick<WorkerPauses, "admit">;
  readonly metering: Metering;
  readonly events: Emitter<WorkerEvents>;
  /** A claim has returned jobs. */
  readonly onClaimed: () => void;
  /** A slot of this queue is free, or an outcome was recorded. */
  readonly onRoom: (queue: string) => void;
  /** A place of some limit may be free. */
  readonly onPlaceFreed: () => void;
  /** A job of this queue will be due again in this many milliseconds. */
  readonly onRequeued: (queue: string, delayMs: number) => void;
};
