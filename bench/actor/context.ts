import type { Client, Payload, Stores } from "../core/types.ts";
import { nowMs } from "../core/clock.ts";

/** State shared by the tasks of one actor. */
export type Context = {
  readonly client: Client;
  readonly stores: Stores;
  readonly runs: Runs;
};

/** Handler starts recorded by a worker. */
export class Runs {
  count = 0;
  firstMs: number | undefined;
  lastMs: number | undefined;
  /** From the intended enqueue time to the start of the handler, for jobs whose payload has that time. */
  readonly latencies: number[] = [];
  /** The numbers of these jobs. */
  readonly numbers: number[] = [];
  readonly #failed = new Map<number, number>();

  async run(payload: Payload): Promise<void> {
    this.count += 1;
    if (payload.at !== 0 || this.firstMs === undefined) {
      const now = nowMs();
      this.firstMs ??= now;
      this.lastMs = now;
      if (payload.at !== 0) {
        this.latencies.push(Math.round((now - payload.at) * 1000) / 1000);
        this.numbers.push(payload.n);
      }
    }
    if (payload.failures !== undefined) this.#mayFail(payload.n, payload.failures);
  }

  #mayFail(n: number, failures: number): void {
    const failed = this.#failed.get(n) ?? 0;
    if (failed >= failures) return;
    this.#failed.set(n, failed + 1);
    throw new Error("fails on purpose");
  }
}
