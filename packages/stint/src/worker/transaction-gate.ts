import type { Db } from "../db/db.ts";
import { Semaphore } from "../db/semaphore.ts";
import type { JobDefinition } from "../define.ts";
import type { Logger } from "../runtime/logger.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import type { Handler } from "./handler.ts";

export type TransactionGateOptions = {
  readonly db: Db;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly logger: Logger;
  readonly stopping: AbortSignal;
  /** The excluded kinds may be claimed again. */
  readonly onOpened: () => void;
};

const none: ReadonlySet<string> = new Set();

/**
 * Excludes kinds whose handlers need a transaction while connecting for one fails: the worker's own connections would continue to
 * claim jobs that cannot run. Retries to connect until it succeeds.
 */
export class TransactionGate {
  readonly #options: TransactionGateOptions;
  /** Atomic kinds, and kinds whose handlers have called `complete`. */
  readonly #needing: Set<string>;
  /** Of kinds with `maxTransactions`. */
  readonly #slots = new Map<string, Semaphore>();
  #closed = false;

  constructor(options: TransactionGateOptions) {
    this.#options = options;
    const atomic = [...options.handlers.values()].filter(({ definition }) => definition.atomic);
    this.#needing = new Set(atomic.map(({ definition }) => definition.kind));
  }

  /** The kinds not to claim now. */
  get excludedKinds(): ReadonlySet<string> {
    return this.#closed ? this.#needing : none;
  }

  /** A handler of this kind uses a transaction. */
  needs(kind: string): void {
    this.#needing.add(kind);
  }

  /** Run a transaction of this kind when the kind may have one more. */
  async run<T>(
    { kind, maxTransactions }: Pick<JobDefinition, "kind" | "maxTransactions">,
    transaction: () => Promise<T>,
  ): Promise<T> {
    if (maxTransactions === undefined) return await transaction();
    let slots = this.#slots.get(kind);
    if (slots === undefined) this.#slots.set(kind, (slots = new Semaphore(maxTransactions)));
    return await slots.run(transaction);
  }

  /** Connecting failed. */
  close(error: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#options.logger.warn(
      { err: error, kinds: [...this.#needing] },
      "no connection for the transactions of handlers; kinds that need one are not claimed until there is one",
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
        // Logged when the gate closed. The next try waits for longer.
      }
    }
    this.#closed = false;
    logger.info({ kinds: [...this.#needing] }, "connections for the transactions of handlers are back");
    onOpened();
  }
}
