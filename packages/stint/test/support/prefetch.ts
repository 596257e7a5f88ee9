import { defineJob, entry, handle, typed, type WorkerOptions } from "#stint/index.js";
import type { Fresh } from "./fresh.ts";
import { gate } from "./gate.ts";
import { until } from "./until.ts";
import { startWorker, type Watched } from "./watch.ts";

/** Jobs that end at once, so that a worker prefetches, and jobs that hold their slot until the test ends them. */
export const step = defineJob("step", { payload: typed<{ do: "pass" | "hold"; n: number }>() });

export type PrefetchingWorker = Watched & {
  /** Jobs of this worker that were claimed and have not started, in claim order. */
  readonly waiting: () => string[];
  /** Jobs whose handler started, in that order. */
  readonly entered: readonly string[];
  /** Jobs that hold the slots. */
  readonly holding: readonly string[];
  /** End them. */
  readonly finish: () => void;
};

const slots = 2;
/** Enough jobs for the worker to measure its rate. */
export const before = 600;
/** More than one claim returns. */
const behind = 700;

/** A worker whose slots are all held while prefetched jobs wait for them, for an hour by default. */
export async function workerWithWaiting(
  fresh: Fresh,
  options: Partial<WorkerOptions> = {},
): Promise<PrefetchingWorker> {
  const stint = fresh.client();
  const { opened, open } = gate();
  const entered: string[] = [];
  const holding: string[] = [];
  const claimed: string[] = [];
  const watched = await startWorker(stint, {
    pools: { default: slots },
    drain: "20s",
    prefetch: "1h",
    handlers: [
      handle(step, async ({ id, payload }) => {
        entered.push(id);
        if (payload.do === "pass") return;
        holding.push(id);
        await opened;
      }),
    ],
    ...options,
  });
  watched.worker.on("claimed", ({ jobs }) => void claimed.push(...jobs.map(({ id }) => id)));

  const pass = (n: number) => entry(step, { do: "pass", n });
  await stint.enqueueMany([
    ...Array.from({ length: before }, (_, n) => pass(n)),
    ...Array.from({ length: slots }, (_, n) => entry(step, { do: "hold", n })),
    ...Array.from({ length: behind }, (_, n) => pass(n)),
  ]);
  const waiting = (): string[] => {
    const begun = new Set(entered);
    return claimed.filter((id) => !begun.has(id));
  };
  await until(() => holding.length === slots && waiting().length > 0, {
    message: "every slot is held and jobs wait behind them",
  });
  return { ...watched, waiting, entered, holding, finish: () => open() };
}
