import { onTestFinished } from "vitest";
import type { Stint, WorkerEvents, WorkerOptions } from "#stint/index.js";
import { until } from "./until.ts";

type Name = keyof WorkerEvents;
const names = [
  "started",
  "stopping",
  "stopped",
  "claimed",
  "began",
  "settled",
  "failed",
  "dead",
  "leaseLost",
  "rescued",
  "unserved",
  "blocked",
  "slow",
  "stuck",
] as const satisfies Name[];

/** A worker in this process, started, and everything it tells. */
export type Watched = {
  readonly worker: ReturnType<Stint["worker"]>;
  readonly all: <N extends Name>(name: N) => WorkerEvents[N][];
  /** Waits for an event of this name that the test is looking for: the first one, if it does not say. */
  readonly seen: <N extends Name>(
    name: N,
    which?: (event: WorkerEvents[N]) => boolean,
  ) => Promise<WorkerEvents[N]>;
};

/** Start a worker, quick enough for a test. It is stopped when the test ends. */
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
  for (const name of names) {
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
