import type { Db } from "../db/db.ts";
import { terminalStates } from "../model/state.ts";
import type { Emitter } from "../runtime/emitter.ts";
import { notifyEnded } from "../sql/ended.ts";
import type { WorkerEvents } from "./events.ts";

/** How long ended jobs are reported after a process last said that it waits; it repeats that every 10 s. */
const reportForMs = 30_000;

export type EndedReportsOptions = {
  readonly db: Db;
  readonly events: Emitter<WorkerEvents>;
  /** Waits of this process. */
  readonly onEnded: (ids: readonly string[]) => void;
  /** Whether other processes are notified. */
  readonly notifies: boolean;
};

/**
 * Reports ended jobs to processes that wait for jobs. While none waits, nothing listens to the worker's events, so that an outcome costs
 * nothing more. The ids of one turn of the event loop, and those that arrive while a message is on its way, share a statement.
 */
export class EndedReports {
  readonly #options: EndedReportsOptions;
  #ids: string[] = [];
  #isSending = false;
  #stopListening: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: EndedReportsOptions) {
    this.#options = options;
  }

  /** Some process waits for jobs. */
  wanted(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.stop(), reportForMs).unref();
    this.#stopListening ??= this.#options.events.on("settled", ({ id, state }) => {
      if (!(terminalStates as readonly string[]).includes(state)) return;
      this.#ids.push(id);
      if (!this.#isSending) void this.#send();
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  async #send(): Promise<void> {
    const { db, onEnded, notifies } = this.#options;
    this.#isSending = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#ids.length > 0) {
      const ids = this.#ids;
      this.#ids = [];
      onEnded(ids);
      // A lost report delays a wait until its next poll, nothing else.
      if (notifies) await notifyEnded(db, db.schema, ids).catch(() => undefined);
    }
    this.#isSending = false;
  }
}
