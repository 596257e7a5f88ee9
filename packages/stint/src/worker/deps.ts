import type { Connection } from "../db/connection.ts";
import type { Db } from "../db/db.ts";
import type { DeclaredQueues } from "../model/queue-settings.ts";
import type { Telemetry } from "../model/telemetry.ts";
import type { Logger } from "../runtime/logger.ts";

/** What a worker needs of the client it was made from. */
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
  /** Hints from this very process. Answers how to stop listening. */
  readonly listen: (listener: (hint: string) => void) => () => void;
  /** Wake whoever listens, here and elsewhere. */
  readonly notify: (hints: readonly string[]) => void;
};
