import type { Connection } from "../db/connection.ts";
import { Listener } from "../db/listener.ts";
import type { Logger } from "../runtime/logger.ts";
import { endedChannel } from "../sql/ended.ts";

/** How often workers are reminded that some process waits. They report ended jobs for three times as long after each reminder. */
const remindEveryMs = 10_000;
/** How long the connection stays open after the last wait: a program often waits again. */
const lingerMs = 5_000;

export type EndedListenerOptions = {
  /** Undefined: no connection can be opened. Waits are then served by polling, as without wakes. */
  readonly connection: Connection | undefined;
  readonly wake: "auto" | "notify" | "none";
  readonly schema: string;
  readonly logger: Logger;
  /** Report to workers that some process waits for jobs. */
  readonly remind: () => void;
  /** Ended jobs; `any`: reports may have been missed. */
  readonly onEnded: (ids: readonly string[] | "any") => void;
};

/** Receives the ids of ended jobs on one connection per client, while any call of that client waits. */
export class EndedListener {
  readonly #options: EndedListenerOptions;
  #listener: Listener | undefined;
  #reminder: NodeJS.Timeout | undefined;
  #linger: NodeJS.Timeout | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: EndedListenerOptions) {
    this.#options = options;
  }

  /** Some call waits. */
  start(): void {
    const { remind } = this.#options;
    clearTimeout(this.#linger);
    // A worker of this process is notified without a connection.
    remind();
    this.#reminder ??= setInterval(remind, remindEveryMs).unref();
    this.#listener ??= this.#open();
  }

  /** No call waits any more. */
  pause(): void {
    clearInterval(this.#reminder);
    this.#reminder = undefined;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => void this.stop(), lingerMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#reminder);
    this.#reminder = undefined;
    clearTimeout(this.#linger);
    const listener = this.#listener;
    this.#listener = undefined;
    if (listener !== undefined) this.#stopping = listener.stop();
    await this.#stopping;
  }

  #open(): Listener | undefined {
    const { connection, wake, schema, logger, remind, onEnded } = this.#options;
    if (connection === undefined || wake === "none") return undefined;
    const listener = new Listener({
      connection,
      channel: endedChannel(schema),
      applicationName: "stint waits",
      throughPooler: wake === "notify",
      onHint: (hint) => onEnded(hint.split(",")),
      onListening: () => {
        // Jobs may have ended before, and workers may have missed an earlier reminder.
        remind();
        onEnded("any");
      },
      onPooler: (detail) => logger.debug({ detail }, "waiting for jobs by polling, without LISTEN"),
      onTrouble: (detail) =>
        logger.debug({ detail }, "waiting for jobs by polling until the connection is back"),
    });
    listener.start();
    return listener;
  }
}
