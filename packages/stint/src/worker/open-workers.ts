import type { Worker } from "./worker.ts";

/** The workers of one client that have not stopped, and how each of them is waited for. */
export class OpenWorkers {
  readonly #waits = new Map<Worker, () => Promise<unknown>>();

  /** Returns the worker. */
  add(worker: Worker): Worker {
    const stopped = new Promise<void>((resolve) => {
      worker.on("stopped", () => {
        this.#waits.delete(worker);
        resolve();
      });
    });
    this.#waits.set(worker, () => worker.stop());
    // A second call of stop would cut the drain short that the first one began.
    worker.on("stopping", () => this.#waits.set(worker, () => stopped));
    return worker;
  }

  /** Stop them all. Resolves when they have stopped, and never rejects; undefined if there are none. */
  stop(): Promise<unknown> | undefined {
    if (this.#waits.size === 0) return undefined;
    return Promise.allSettled([...this.#waits.values()].map((wait) => wait()));
  }
}
