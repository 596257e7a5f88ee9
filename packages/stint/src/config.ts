import { stintOptionKeys, type StintOptions } from "./client/options.ts";
import type { JobDefinition } from "./define.ts";
import { refuseUnknownKeys } from "./model/options.ts";
import type { WorkerOptions } from "./worker/options.ts";

/** What `stint.config.ts` exports as its default: the client's options and those of the worker it runs. */
export type StintConfig = StintOptions & {
  /** What `stint worker` and `stint dev` run. */
  worker?: WorkerOptions;
};

/** A config, checked as a whole and taken apart. The options themselves are checked by what uses them. */
export type ResolvedConfig = {
  /** For `createStint`. The kinds of the worker's handlers are among its jobs. */
  readonly options: StintOptions;
  readonly worker: WorkerOptions | undefined;
};

const keys: readonly string[] = [...stintOptionKeys, "worker"];

/**
 * Write the config of a project, with the compiler's help.
 *
 * @throws {InvalidOptionError} It has a key that nothing reads.
 */
export function defineConfig(config: StintConfig): StintConfig {
  refuseUnknownKeys("defineConfig", config, keys);
  return Object.freeze({ ...config });
}

/**
 * Check a config that came from a file, where no compiler need have seen it.
 *
 * @throws {InvalidOptionError} It is not an object, or has a key that nothing reads.
 */
export function resolveConfig(config: StintConfig, what = "config"): ResolvedConfig {
  refuseUnknownKeys(what, config, keys);
  const { worker, ...options } = config;
  return { options: { ...options, jobs: allJobs(config) }, worker };
}

function allJobs({ jobs = [], worker }: StintConfig): JobDefinition[] {
  const listed = new Set(jobs.map((job) => job.kind));
  // What is no handler is left for the worker's own check to name.
  const handled = (worker?.handlers ?? []).flatMap((handler) => handler?.definition ?? []);
  return [...jobs, ...handled.filter((job) => !listed.has(job.kind))];
}
