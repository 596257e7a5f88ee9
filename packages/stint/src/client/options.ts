import { requireConnection, type Connection } from "../db/connection.ts";
import type { JobDefinition } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { checkSchemaName, checkText } from "../model/names.ts";
import {
  refuseUnknownKeys,
  requireBoolean,
  requireFunction,
  requireInteger,
  requireOneOf,
} from "../model/options.ts";
import { jsonLogger, type Logger } from "../runtime/logger.ts";
import { requireDefinition } from "./kinds.ts";

export type StintOptions = {
  /** A connection string, or its parts. Default: the environment's DATABASE_URL. */
  database?: Connection | undefined;
  /** The schema of this installation. Default "stint". */
  schema?: string;
  /** Kinds that may be enqueued by name. Those of a worker's handlers need not be listed. */
  jobs?: readonly JobDefinition[];
  /** How workers learn of new work between polls. Default "notify"; "none" only polls. */
  wake?: "notify" | "none";
  /** Use named prepared statements. Default true; turn off behind a pooler that cannot carry them. */
  prepare?: boolean;
  /** Connections for the library's own statements. Default 2. */
  connections?: number;
  /** Largest payload and result in bytes of JSON. Default 1 MiB. */
  maxPayloadBytes?: number;
  logger?: Logger;
  /** Who acts, for the audit of cancel, replay and runNow. Default "app". */
  actor?: string;
};

export type ResolvedStintOptions = {
  readonly connection: Connection;
  readonly schema: string;
  readonly jobs: ReadonlyMap<string, JobDefinition>;
  readonly wake: "notify" | "none";
  readonly prepare: boolean;
  readonly connections: number;
  readonly maxPayloadBytes: number;
  readonly logger: Logger;
  readonly actor: string;
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
  "actor",
] as const satisfies (keyof StintOptions)[];

/** Fill in defaults, refuse what cannot work, freeze the rest. The only place client options are checked. */
export function resolveStintOptions(input: StintOptions): ResolvedStintOptions {
  if (typeof input === "string")
    throw new InvalidOptionError("createStint", `takes options: pass { database: ${describe(input)} }`);
  refuseUnknownKeys("createStint", input, stintOptionKeys);
  return Object.freeze({
    connection: requireConnection("createStint.database", input.database ?? process.env["DATABASE_URL"]),
    schema: checkSchemaName(input.schema ?? "stint", "createStint.schema"),
    jobs: byKind(input.jobs ?? []),
    wake: requireOneOf("createStint.wake", input.wake ?? "notify", ["notify", "none"]),
    prepare: requireBoolean("createStint.prepare", input.prepare ?? true),
    connections: requireInteger("createStint.connections", input.connections ?? 2, { min: 1, max: 100 }),
    maxPayloadBytes: requireInteger("createStint.maxPayloadBytes", input.maxPayloadBytes ?? 1_048_576, {
      min: 1,
      max: 67_108_864,
    }),
    logger: requireLogger(input.logger ?? jsonLogger()),
    actor: checkText(input.actor ?? "app", "createStint.actor"),
  });
}

/** Of a class, it would be taken apart into a configuration of nonsense, and connect to whatever the defaults say. */
function requireLogger(logger: Logger): Logger {
  for (const method of ["debug", "info", "warn", "error", "child"] as const) {
    requireFunction(`createStint.logger.${method}`, (logger as Partial<Logger> | null)?.[method]);
  }
  return logger;
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
