import type { Db } from "../db/db.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import type { Handler } from "./handler.ts";

export type TransactionGateOptions = {
  readonly db: Db;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly logger: Logger;
  readonly stopping: AbortSignal;
  /** Kinds may be claimed again that were not for a while. */
  readonly onOpened: () => void;
};

/**
 * Keeps kinds whose handlers need a transaction from being claimed while no connection can be had for one: the worker's own
 * connections would go on to feed them jobs that cannot run. Tries to connect by itself until it can.
 */
export class TransactionGate {
  readonly #options: TransactionGateOptions;
  readonly #kinds: readonly string[];
  /** Atomic kinds, and those that were seen to call `complete`. */
  readonly #needing: Set<string>;
  #closed = false;

  constructor(options: TransactionGateOptions) {
    this.#options = options;
    this.#kinds = [...options.handlers.keys()];
    const atomic = [...options.handlers.values()].filter(({ definition }) => definition.atomic);
    this.#needing = new Set(atomic.map(({ definition }) => definition.kind));
  }

  /** The kinds to claim now. */
  get kinds(): readonly string[] {
    return this.#closed ? this.#kinds.filter((kind) => !this.#needing.has(kind)) : this.#kinds;
  }

  /** A handler of this kind asks for a transaction. */
  asked(kind: string): void {
    this.#needing.add(kind);
  }

  /** No connection could be had. */
  close(error: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#options.logger.warn(
      { err: error, kinds: [...this.#needing] },
      "no connection for the transactions of handlers; kinds that need one are not claimed until there is",
    );
    void this.#openWhenPossible();
  }

  async #openWhenPossible(): Promise<void> {
    const { db, logger, stopping, onOpened } = this.#options;
    const retryDelay = new RetryDelay();
    for (;;) {
      await sleep(retryDelay.next(), stopping, { unref: true });
      if (stopping.aborted) return;
      try {
        await db.transaction(
          async () => await Promise.resolve(),
          () => undefined,
        );
        break;
      } catch {
        // Reported when it began. The next try waits for longer.
      }
    }
    this.#closed = false;
    logger.info({ kinds: [...this.#needing] }, "connections for the transactions of handlers are back");
    onOpened();
  }
}
