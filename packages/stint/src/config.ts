import type { IncomingMessage } from "node:http";
import { stintOptionKeys, type StintOptions } from "./client/options.ts";
import type { JobDefinition } from "./define.ts";
import { refuseUnknownKeys } from "./model/options.ts";
import type { WorkerOptions } from "./worker/options.ts";

/**
 * What `stint dashboard` and `stint dev` show, and how: options of the package `@stint/dashboard`, which checks them and says what
 * they mean. Who may look is said by a token, and not here.
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
    readonly job: string;
    readonly kind: string;
    readonly at: Date;
  }) => void | Promise<void>;
};

/** What `stint.config.ts` exports as its default: the client's options and those of the worker it runs. */
export type StintConfig = StintOptions & {
  /** What `stint worker` and `stint dev` run. */
  worker?: WorkerOptions;
  /** What `stint dashboard` and `stint dev` show, and how. */
  dashboard?: DashboardConfig;
};

/** A config, checked as a whole and taken apart. The options themselves are checked by what uses them. */
export type ResolvedConfig = {
  /** For `createStint`. The kinds of the worker's handlers are among its jobs. */
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
 * Write the config of a project, with the compiler's help.
 *
 * @throws {InvalidOptionError} It has a key that nothing reads.
 */
export function defineConfig(config: StintConfig): StintConfig {
  refuseUnknown("defineConfig", config);
  return Object.freeze({ ...config });
}

/**
 * Check a config that came from a file, where no compiler need have seen it.
 *
 * @throws {InvalidOptionError} It is not an object, or has a key that nothing reads.
 */
export function resolveConfig(config: StintConfig, what = "config"): ResolvedConfig {
  refuseUnknown(what, config);
  const { worker, dashboard = {}, ...options } = config;
  return { options: { ...options, jobs: allJobs(config) }, worker, dashboard };
}

/** A misspelt `redact` would otherwise silently hide nothing. */
function refuseUnknown(what: string, config: StintConfig): void {
  refuseUnknownKeys(what, config, keys);
  if (config.dashboard !== undefined) refuseUnknownKeys(`${what}.dashboard`, config.dashboard, dashboardKeys);
}

function allJobs({ jobs = [], worker }: StintConfig): JobDefinition[] {
  const listed = new Set(jobs.map((job) => job.kind));
  // What is no handler is left for the worker's own check to name.
  const handled = (worker?.handlers ?? []).flatMap((handler) => handler?.definition ?? []);
  return [...jobs, ...handled.filter((job) => !listed.has(job.kind))];
}
