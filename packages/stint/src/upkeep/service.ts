import type { Logger } from "../runtime/logger.ts";
import { Recovery } from "../runtime/recovery.ts";
import { Wakeable } from "../runtime/sleep.ts";

export type ServiceOptions = {
  readonly name: string;
  readonly logger: Logger;
  /** Do the duty once; answer how long to rest, in milliseconds. */
  readonly tick: () => Promise<number>;
};

/**
 * A duty that is done again and again. Every upkeep duty has this shape: any worker may do any of them at any time, a
 * failure is logged and followed by a retry, and nothing but `stop` ends the loop.
 */
export class Service {
  readonly #options: ServiceOptions;
  readonly #wake = new Wakeable();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(options: ServiceOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Do it now rather than at the end of the rest. */
  wake(): void {
    this.#wake.wake();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    const { name, logger, tick } = this.#options;
    const recovery = new Recovery();
    while (!signal.aborted) {
      let restMs: number;
      try {
        restMs = await tick();
        recovery.reset();
      } catch (error) {
        logger.warn({ err: error, duty: name }, "upkeep failed; trying again");
        restMs = recovery.next();
      }
      await this.#wake.wait(restMs, signal);
    }
  }
}

/** A rest of about this length: workers that started together must not come back together. */
export function about(ms: number): number {
  return ms * (0.8 + 0.4 * Math.random());
}
