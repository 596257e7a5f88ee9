import { onTestFinished } from "vitest";
import type { Stint, WorkerEvents, WorkerOptions } from "#stint/index.js";
import { workerEventNames } from "#stint/worker/events.js";
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

/** Starts a worker with short intervals. It is stopped when the test ends. */
export async function startWorker(
  stint: Stint,
  options: Partial<WorkerOptions> & Pick<WorkerOptions, "handlers">,
): Promise<Watched> {
  const worker = stint.worker({
    pools: { default: 4 },
    signals: false,
    poll: 100,
    rescueEvery: 200,
    abort: "1s",
    ...options,
  });
  const seen = new Map<Name, unknown[]>();
  for (const name of workerEventNames) {
    const events: unknown[] = [];
    seen.set(name, events);
    worker.on(name, (event) => events.push(event));
  }
  onTestFinished(async () => {
    await worker.stop({ drain: 0, abort: 0 });
  });
  await worker.start();
  const all = <N extends Name>(name: N): WorkerEvents[N][] => seen.get(name) as WorkerEvents[N][];
  return {
    worker,
    all,
    seen: async (name, which = () => true) =>
      await until(() => all(name).find((event) => which(event))!, { message: `the worker tells "${name}"` }),
  };
}

/** Resolves with the reason when the signal aborts. */
export async function abortOf(signal: AbortSignal): Promise<unknown> {
  return await new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}
