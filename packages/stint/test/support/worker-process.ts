import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, renameSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";
import { inject, onTestFinished } from "vitest";
import type { StintOptions } from "#stint/client/options.js";
import { defineJob, typed, type BatchHandlerOptions, type WorkerOptions } from "#stint/index.js";
import type { Fresh } from "./fresh.ts";
import { until } from "./until.ts";

/** What a handler of the fixture does. `hang` ends on `go` or when its signal aborts; `ignore` only on `go`. */
export type Action =
  | { do: "succeed" | "hang" | "ignore" | "die" | "continue" | "ignore-then-continue" }
  | { do: "throw"; message: string }
  | { do: "block"; ms: number }
  // Blocks the event loop from `go` until there is a file of this name.
  | { do: "block-until"; file: string };

/** The kinds that the fixture serves by default. */
export const scripted = defineJob("scripted", {
  payload: typed<Action>(),
  result: typed<{ pid: number; epoch: number }>(),
});
export const bystander = defineJob("bystander", { payload: typed<Action>() });

export type Report = {
  event: string;
  id?: string;
  kind?: string;
  epoch?: number;
  reason?: string;
  outcome?: string;
  state?: string;
  kinds?: string[];
  released?: number;
  drained?: number;
  ms?: number;
  worker?: string;
  /** Of the fixture of steps. */
  step?: string;
  jobs?: { id: string; kind: string }[];
};

export type WorkerProcess = {
  readonly pid: number;
  readonly reports: readonly Report[];
  /** Waits for a report of this event, of this job if one is given. */
  reported(event: string, job?: string): Promise<Report>;
  /** Lets the handler of this job continue. */
  go(job: string): void;
  kill(signal: NodeJS.Signals): void;
  /** Resolves when the process has ended. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  errors(): string;
};

export const workerProgram = fileURLToPath(new URL("../fixtures/worker-process.mjs", import.meta.url));

/**
 * A program and the library in one file, built once for a run: a process that loads them file by file takes twice the CPU to start.
 * The tests of `stint worker` run the library as it is installed.
 */
export function builtProgram(program: string): string {
  const name = `${basename(dirname(program))}-${basename(program, extname(program))}.mjs`;
  const file = join(`${inject("cluster")}-programs`, name);
  if (existsSync(file)) return file;
  const building = `${file}.${process.pid}`;
  esbuild.buildSync({
    entryPoints: [program],
    outfile: building,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["pg-native"],
    // As in scripts/embed.mjs.
    define: { Response: "undefined" },
    logLevel: "error",
    // esbuild cannot turn the driver's `require` of Node's own modules into imports.
    banner: {
      js: `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`,
    },
  });
  // Another test file may do the same at the same time: a file of this name is always complete.
  renameSync(building, file);
  return file;
}

/** Short enough for a test to wait for, and long enough that a worker renews in time on a machine that stalls for some seconds. */
export const fast = { lease: "10s", rescueEvery: 300, poll: 300 } as const;

/** End the leases of workers that are dead or paused now, so that a test need not wait for it. */
export async function expireLeases(fresh: Fresh): Promise<void> {
  await fresh.sql("update stint.job set lease_until = clock_timestamp() where state = 'running'");
}

export type WorkerProcessSettings = {
  kinds?: readonly string[];
  /** Kill itself there: on an event, or between the handler's end and the settle. */
  dieAt?: "claimed" | "before-settle" | "settled";
  /** Handle the jobs in batches. */
  batch?: BatchHandlerOptions;
  client?: Partial<StintOptions>;
  worker?: Partial<Omit<WorkerOptions, "handlers" | "middlewares">>;
  /** Another file than the usual bundle of the fixture. */
  program?: string;
  /** Options for Node, before the file. */
  execArgv?: readonly string[];
  env?: Readonly<Record<string, string>>;
};

/** On a machine with no core to spare, a start gives up after its time limits. */
const refusedByLoad = /LEASES_UNAVAILABLE|DATABASE_UNAVAILABLE/;

/** Start a worker in a process of its own, again if the machine was too busy, as a supervisor would. It is killed when the test ends. */
export async function startWorkerProcess(
  fresh: Pick<Fresh, "url" | "schema">,
  settings: WorkerProcessSettings = {},
  tries = 3,
): Promise<WorkerProcess> {
  const worker = spawnWorkerProcess(fresh, settings);
  try {
    await worker.reported("started");
    return worker;
  } catch (error) {
    if (tries === 1 || !refusedByLoad.test(worker.errors())) throw error;
    return await startWorkerProcess(fresh, settings, tries - 1);
  }
}

/** The same, without waiting until it has started. */
export function spawnWorkerProcess(
  fresh: Pick<Fresh, "url" | "schema">,
  settings: WorkerProcessSettings = {},
): WorkerProcess {
  const { kinds = ["scripted", "bystander"], dieAt, batch, client = {}, worker = {} } = settings;
  const { program = builtProgram(workerProgram), execArgv = [], env = {} } = settings;
  const input = {
    url: fresh.url,
    schema: fresh.schema,
    kinds,
    dieAt,
    batch,
    client,
    worker: { pools: { default: 4 }, ...fast, ...worker },
  };
  const child = spawn(process.execPath, [...execArgv, program, JSON.stringify(input)], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  const followed = follow(child);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await followed.ended;
  });
  return followed;
}

function follow(child: ChildProcess): WorkerProcess {
  const reports: Report[] = [];
  let unfinished = "";
  let err = "";
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    const lines = `${unfinished}${text}`.split("\n");
    unfinished = lines.pop() ?? "";
    for (const line of lines) reports.push(JSON.parse(line) as Report);
  });
  child.stderr!.setEncoding("utf8").on("data", (text: string) => (err += text));
  // A killed process no longer reads its standard input.
  child.stdin!.on("error", () => undefined);
  let hasEnded = false;
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("close", (code, signal) => {
      hasEnded = true;
      resolve({ code, signal });
    });
  });
  return {
    pid: child.pid!,
    reports,
    ended,
    errors: () => err,
    go: (job) => child.stdin!.write(`${JSON.stringify({ go: job })}\n`),
    kill: (signal) => child.kill(signal),
    async reported(event, job) {
      const wanted = `the worker process reports "${event}"${job === undefined ? "" : ` of job ${job}`}`;
      const find = (): Report | undefined =>
        reports.find((report) => report.event === event && (job === undefined || report.id === job));
      const context = (): string => `${JSON.stringify(reports.slice(-20))}\n${err}`;
      await until(() => find() !== undefined || hasEnded, { message: wanted }).catch((error: Error) => {
        throw new Error(`${error.message}\n${context()}`, { cause: error });
      });
      const report = find();
      if (report === undefined) throw new Error(`The process ended before ${wanted}\n${context()}`);
      return report;
    },
  };
}

/** Of these processes, each time a handler was entered: one `job/epoch` per attempt. */
export function entered(...workers: readonly WorkerProcess[]): string[] {
  return workers
    .flatMap((worker) => worker.reports)
    .filter((report) => report.event === "entered")
    .map((report) => `${report.id}/${report.epoch}`);
}
