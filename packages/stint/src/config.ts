import type { IncomingMessage } from "node:http";
import { stintOptionKeys, type StintOptions } from "./client/options.ts";
import type { JobDefinition } from "./define.ts";
import { refuseUnknownKeys } from "./model/options.ts";
import type { WorkerOptions } from "./worker/options.ts";

/**
 * Options of `stint dashboard` and `stint dev` for the package `@stint/dashboard`, which checks and documents them. Access is
 * controlled by a token, not here.
 */
export type DashboardConfig = {
  environment?: { name: string; production?: boolean };
  redact?: readonly string[];
  hosts?: readonly string[];
  traceUrl?: string;
  limits?: Readonly<Record<string, number>>;
  addressOf?: (request: Request, context: { readonly req?: IncomingMessage }) => string | null | undefined;
  onAudit?: (event: {
    readonly action: "payload-seen";
    readonly user: string | null;
    readonly job: string | null;
    readonly schedule: string | null;
    readonly kind: string;
    readonly at: Date;
  }) => void | Promise<void>;
};

/** The default export of `stint.config.ts`: options of the client, the worker and the dashboard. */
export type StintConfig = StintOptions & {
  /** The worker of `stint worker` and `stint dev`. */
  worker?: WorkerOptions;
  /** The dashboard of `stint dashboard` and `stint dev`. */
  dashboard?: DashboardConfig;
};

/** A checked config, split into its parts. The code that uses an option checks its value. */
export type ResolvedConfig = {
  /** For `createStint`. Its jobs include the kinds of the worker's handlers. */
  readonly options: StintOptions;
  readonly worker: WorkerOptions | undefined;
  readonly dashboard: DashboardConfig;
};

const keys: readonly string[] = [...stintOptionKeys, "worker", "dashboard"];
const dashboardKeys = [
  "environment",
  "redact",
  "hosts",
  "traceUrl",
  "limits",
  "addressOf",
  "onAudit",
] as const satisfies (keyof DashboardConfig)[];

/**
 * Declare the config of a project, checked by the compiler.
 *
 * @throws {InvalidOptionError} It has an unknown key.
 */
export function defineConfig(config: StintConfig): StintConfig {
  refuseUnknown("defineConfig", config);
  return Object.freeze({ ...config });
}

/**
 * Check a config that was loaded from a file.
 *
 * @throws {InvalidOptionError} It is not an object, or has an unknown key.
 */
export function resolveConfig(config: StintConfig, what = "config"): ResolvedConfig {
  refuseUnknown(what, config);
  const { worker, dashboard = {}, ...options } = config;
  return { options: { ...options, jobs: allJobs(config) }, worker, dashboard };
}

/** Otherwise a misspelt `redact` would silently redact nothing. */
function refuseUnknown(what: string, config: StintConfig): void {
  refuseUnknownKeys(what, config, keys);
  if (config.dashboard !== undefined) refuseUnknownKeys(`${what}.dashboard`, config.dashboard, dashboardKeys);
}

function allJobs({ jobs = [], worker }: StintConfig): JobDefinition[] {
  const listed = new Set(jobs.map((job) => job.kind));
  // The worker's own check reports entries that are not handlers.
  const handled = (worker?.handlers ?? []).flatMap((handler) => handler?.definition ?? []);
  return [...jobs, ...handled.filter((job) => !listed.has(job.kind))];
}
