import { beforeAll, onTestFinished } from "vitest";
import type { Stint, WorkerEvents, WorkerOptions } from "#stint/index.js";
import { workerEventNames } from "#stint/worker/events.js";
import { sharedSchema, type Fresh } from "./fresh.ts";
import { until } from "./until.ts";

type Name = keyof WorkerEvents;

/** A started worker of this process, with every event it has emitted. */
export type Watched = {
  readonly worker: ReturnType<Stint["worker"]>;
  readonly all: <N extends Name>(name: N) => WorkerEvents[N][];
  /** Waits for the first event of this name, or the first for which `which` holds. */
  readonly seen: <N extends Name>(
    name: N,
    which?: (event: WorkerEvents[N]) => boolean,
  ) => Promise<WorkerEvents[N]>;
};

type Options = Partial<WorkerOptions> & Pick<WorkerOptions, "handlers">;

/** Starts a worker with short intervals. It is stopped when the test ends. */
export async function startWorker(stint: Stint, options: Options): Promise<Watched> {
  const watched = watch(stint, options);
  onTestFinished(async () => {
    await watched.worker.stop({ drain: 0, abort: 0 });
  });
  await watched.worker.start();
  return watched;
}

/** One installation and one worker for all tests of a file: to start and stop a worker costs more than most attempts. */
export function sharedWorker(
  options: (fresh: Fresh) => Options,
): () => Watched & { fresh: Fresh; stint: Stint } {
  const fresh = sharedSchema();
  let shared: (Watched & { fresh: Fresh; stint: Stint }) | undefined;
  beforeAll(async () => {
    const stint = fresh().client();
    const watched = watch(stint, options(fresh()));
    shared = { ...watched, fresh: fresh(), stint };
    await watched.worker.start();
    return async () => void (await watched.worker.stop({ drain: 0, abort: 0 }));
  });
  return () => {
    if (shared === undefined) throw new Error("The worker runs within tests only");
    return shared;
  };
}

function watch(stint: Stint, options: Options): Watched {
  const worker = stint.worker({
    pools: { default: 4 },
    signals: false,
    poll: 400,
    rescueEvery: 500,
    abort: "1s",
    ...options,
  });
  const seen = new Map<Name, unknown[]>();
  for (const name of workerEventNames) {
    const events: unknown[] = [];
    seen.set(name, events);
    worker.on(name, (event) => events.push(event));
  }
  const all = <N extends Name>(name: N): WorkerEvents[N][] => seen.get(name) as WorkerEvents[N][];
  return {
    worker,
    all,
    seen: async (name, which = () => true) =>
      await until(() => all(name).find((event) => which(event))!, {
        message: `the worker reports "${name}"`,
      }),
  };
}

/** Resolves with the reason when the signal aborts. */
export async function abortOf(signal: AbortSignal): Promise<unknown> {
  return await new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}
