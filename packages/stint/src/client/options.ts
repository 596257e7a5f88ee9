import {
  isPool,
  requireConnection,
  shownConnection,
  type Connection,
  type PoolLike,
} from "../db/connection.ts";
import { serverAddress } from "../db/server-address.ts";
import type { JobDefinition } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import {
  declaredDependencies,
  requireDependency,
  type DeclaredDependencies,
  type DependencyDefinition,
} from "../model/dependencies.ts";
import { describe } from "../model/describe.ts";
import { checkSchemaName, checkText } from "../model/names.ts";
import { resolveQueues, type DeclaredQueues, type QueueSettings } from "../model/queue-settings.ts";
import { telemetryMethods, type Telemetry } from "../model/telemetry.ts";
import {
  refuseUnknownKeys,
  requireBoolean,
  requireFunction,
  requireInteger,
  requireOneOf,
} from "../model/options.ts";
import { jsonLogger, type Logger } from "../runtime/logger.ts";
import { safeLogger } from "../runtime/safe-logger.ts";
import { requireDefinition } from "./kinds.ts";
import { safeTelemetry } from "./safe-telemetry.ts";

export type StintOptions = {
  /**
   * A connection string, or its parts. Default: the environment variable DATABASE_URL. Or your own `Pool` of `pg`, for clients that
   * enqueue, read and act, but run no worker. Stint never closes the pool, and changes nothing in its sessions.
   */
  database?: Connection | PoolLike | undefined;
  /** The schema of this installation. Default "stint". */
  schema?: string;
  /** Kinds that may be enqueued by name. Those of a worker's handlers need not be listed. */
  jobs?: readonly JobDefinition[];
  /**
   * How workers learn of new work between polls. Default: by LISTEN and NOTIFY; behind a pooler, by polling only.
   * "notify": LISTEN behind a pooler, too (in session mode). "none": poll only, and send no NOTIFY.
   */
  wake?: "notify" | "none";
  /**
   * Use named prepared statements. Default: yes, except behind a pooler. True: behind a pooler, too (if it supports them).
   * False: treat every connection as pooled.
   */
  prepare?: boolean;
  /** Connections for the library's own statements. Default 2. */
  connections?: number;
  /** Largest payload and result in bytes of JSON. Default 1 MiB. */
  maxPayloadBytes?: number;
  logger?: Logger;
  /**
   * Settings of queues, by name or pattern such as `tenant-*`; `*` is for all. Written when a worker starts. `stint.setQueue` changes
   * them live; such a change stays until a worker starts whose code declares another value.
   */
  queues?: Readonly<Record<string, QueueSettings>>;
  /** Dependencies that kinds use by name. Those that kinds use by their definition need not be listed. Written when a worker starts. */
  dependencies?: readonly DependencyDefinition[];
  /** The actor in the audit of cancel, replay and runNow. Default "app". */
  actor?: string;
  /** Traces and metrics: `openTelemetry()` of "stint/opentelemetry". Default none. */
  telemetry?: Telemetry;
};

export type ResolvedStintOptions = {
  /** Undefined with the application's own pool. */
  readonly connection: Connection | undefined;
  readonly pool: PoolLike | undefined;
  readonly schema: string;
  readonly jobs: ReadonlyMap<string, JobDefinition>;
  readonly wake: "auto" | "notify" | "none";
  readonly prepare: boolean | undefined;
  readonly connections: number;
  readonly maxPayloadBytes: number;
  readonly logger: Logger;
  readonly queues: DeclaredQueues;
  readonly dependencies: DeclaredDependencies;
  readonly actor: string;
  readonly telemetry: Telemetry | undefined;
};

export const stintOptionKeys = [
  "database",
  "schema",
  "jobs",
  "wake",
  "prepare",
  "connections",
  "maxPayloadBytes",
  "logger",
  "queues",
  "dependencies",
  "actor",
  "telemetry",
] as const satisfies (keyof StintOptions)[];

/** Check the client options, fill in defaults, and freeze the result. They are checked nowhere else. */
export function resolveStintOptions(input: StintOptions): ResolvedStintOptions {
  if (typeof input === "string")
    throw new InvalidOptionError(
      "createStint",
      `takes options: pass { database: "${shownConnection(input)}" }`,
    );
  refuseUnknownKeys("createStint", input, stintOptionKeys);
  const pool = isPool(input.database) ? input.database : undefined;
  const connection =
    pool === undefined
      ? requireConnection("createStint.database", input.database ?? process.env["DATABASE_URL"])
      : undefined;
  const logger = input.logger === undefined ? jsonLogger() : safeLogger(requireLogger(input.logger));
  return Object.freeze({
    connection,
    pool,
    schema: checkSchemaName(input.schema ?? "stint", "createStint.schema"),
    jobs: byKind(input.jobs ?? []),
    wake:
      input.wake === undefined ? "auto" : requireOneOf("createStint.wake", input.wake, ["notify", "none"]),
    prepare: input.prepare === undefined ? undefined : requireBoolean("createStint.prepare", input.prepare),
    connections: requireInteger("createStint.connections", input.connections ?? 2, { min: 1, max: 100 }),
    maxPayloadBytes: requireInteger("createStint.maxPayloadBytes", input.maxPayloadBytes ?? 1_048_576, {
      min: 1,
      max: 67_108_864,
    }),
    logger,
    queues: resolveQueues("createStint.queues", input.queues ?? {}),
    dependencies: resolveDependencies("createStint.dependencies", input.dependencies ?? []),
    actor: checkText(input.actor ?? "app", "createStint.actor"),
    telemetry:
      input.telemetry === undefined ? undefined : resolveTelemetry(input.telemetry, connection, logger),
  });
}

/** An instance of another class would count as parts of which none is set, and connect to the driver's defaults. */
function requireLogger(logger: Logger): Logger {
  for (const method of ["debug", "info", "warn", "error", "child"] as const) {
    requireFunction(`createStint.logger.${method}`, (logger as Partial<Logger> | null)?.[method]);
  }
  return logger;
}

function resolveTelemetry(
  telemetry: Telemetry,
  connection: Connection | undefined,
  logger: Logger,
): Telemetry {
  for (const method of telemetryMethods) {
    requireFunction(`createStint.telemetry.${method}`, (telemetry as Partial<Telemetry> | null)?.[method]);
  }
  const server = connection === undefined ? undefined : serverAddress(connection);
  const bound = server === undefined ? telemetry : (telemetry.at?.(server) ?? telemetry);
  return safeTelemetry(bound, (error) =>
    logger.warn({ err: error }, "telemetry threw; the job continues without it"),
  );
}

function resolveDependencies(option: string, given: readonly DependencyDefinition[]): DeclaredDependencies {
  if (!Array.isArray(given))
    throw new InvalidOptionError(option, `must be an array of dependencies, got ${describe(given)}`);
  return declaredDependencies(
    option,
    given.map((one, index) => requireDependency(one, `${option}[${index}]`)),
  );
}

function byKind(jobs: readonly JobDefinition[]): ReadonlyMap<string, JobDefinition> {
  if (!Array.isArray(jobs))
    throw new InvalidOptionError("createStint.jobs", `must be an array of jobs, got ${describe(jobs)}`);
  const map = new Map<string, JobDefinition>();
  for (const [index, job] of (jobs as readonly JobDefinition[]).entries()) {
    const { kind } = requireDefinition(job, `createStint.jobs[${index}]`);
    if (map.has(kind)) throw new InvalidOptionError("createStint.jobs", `has kind "${kind}" twice`);
    map.set(kind, job);
  }
  return map;
}
