import type { EventEmitter } from "node:events";
import { read } from "../model/safe-read.ts";
import { isFault } from "./sqlstate.ts";

/** Missing in the driver's types: the connection of a client, with an event for each message of the protocol. */
export type Wired = { readonly connection: EventEmitter };

/**
 * Watches a connection while a handler uses it. The handler may run statements through any library, and wrap or swallow their
 * errors, so faults are detected in the protocol, where the server reports them.
 */
export class LentConnection {
  readonly #client: Wired;
  /** The reason why the connection was lost. */
  #lost: unknown;
  /** The fault that aborted the transaction, until it is rolled back. */
  #aborted: unknown;
  readonly #codes = new Set<string>();

  constructor(client: Wired) {
    this.#client = client;
    const { connection } = client;
    connection.on("errorMessage", this.#onError);
    connection.on("readyForQuery", this.#onReady);
    connection.on("error", this.#onLost);
    connection.on("end", this.#onLost);
  }

  /** Stop watching. */
  release(): void {
    const { connection } = this.#client;
    connection.off("errorMessage", this.#onError);
    connection.off("readyForQuery", this.#onReady);
    connection.off("error", this.#onLost);
    connection.off("end", this.#onLost);
  }

  /** The database fault that made the transaction fail, if there was one. `thrown` may wrap it. */
  faultBehind(thrown: unknown): unknown {
    if (this.#lost !== undefined) return this.#lost;
    if (this.#aborted !== undefined) return this.#aborted;
    // A query builder may have rolled back to a savepoint before it rethrew the fault.
    for (let error = thrown, depth = 0; error !== undefined && depth < 8; depth++) {
      if (this.#codes.has(String(read(error, "code")))) return error;
      error = read(error, "cause");
    }
    return undefined;
  }

  readonly #onError = (error: { code?: string }): void => {
    if (!isFault(error.code)) return;
    this.#aborted = error;
    this.#codes.add(error.code);
  };

  readonly #onReady = ({ status }: { status?: string }): void => {
    if (status === "T") this.#aborted = undefined;
  };

  readonly #onLost = (error?: unknown): void => {
    this.#lost ??= error ?? new Error("the connection ended");
  };
}
