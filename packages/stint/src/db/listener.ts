import { escapeIdentifier } from "pg";
import { maskUrl } from "../runtime/mask.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep, Wakeable, settledWithin } from "../runtime/sleep.ts";
import { ReadingClient } from "./client.ts";
import { toClientConfig, type Connection } from "./connection.ts";

export type ListenerOptions = {
  connection: Connection;
  channel: string;
  applicationName: string;
  onHint: (hint: string) => void;
  /** Listening has begun, or begun again: whatever was said meanwhile was missed. */
  onListening: () => void;
  /** Listen through a pooler, too. One in transaction mode loses the subscription, which ends the listening. */
  throughPooler?: boolean;
  /** A pooler stands between: listening has ended for good. */
  onPooler?: (message: string) => void;
  onTrouble: (message: string) => void;
};

const checkEveryMs = 30_000;
/** How long a quiet listener that lost its connection stays without one. */
const quietMs = 900_000;
const checkDeadlineMs = 5_000;

/**
 * Hears wakes on a connection that does nothing else. A half-open socket looks exactly like silence, so the connection proves
 * itself every few seconds and is replaced when it cannot.
 */
export class Listener {
  readonly #options: ListenerOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #listening = false;
  #quiet = false;
  #loud = new Wakeable();

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  get listening(): boolean {
    return this.#listening;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Send nothing: no proof of life, and no new connection for a long time if this one is lost. */
  quiet(): void {
    this.#quiet = true;
    // A fresh one: what was said when nobody slept must not end this sleep.
    this.#loud = new Wakeable();
  }

  /** Prove itself again, from now on. */
  loud(): void {
    this.#quiet = false;
    this.#loud.wake();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const retryDelay = new RetryDelay();
    while (!this.#stopping.signal.aborted) {
      // One for each connection: the end of the last one must not be taken for the end of this one.
      const broken = new Wakeable();
      const client = this.#newClient(broken);
      try {
        await client.connect();
        await client.firstStatement();
        // In a session that others share, the subscription would be theirs.
        if (client.pooled && this.#options.throughPooler !== true)
          return this.#options.onPooler?.('pass wake: "notify" if it keeps one session for each client');
        await client.query(`listen ${escapeIdentifier(this.#options.channel)}`);
        this.#listening = true;
        this.#options.onListening();
        await this.#watch(client, broken, () => retryDelay.reset());
      } catch (error) {
        if (error instanceof SubscriptionLost && client.pooled)
          return this.#options.onPooler?.(error.message);
        if (!this.#stopping.signal.aborted) {
          this.#options.onTrouble(error instanceof Error ? maskUrl(error.message) : String(error));
        }
      } finally {
        this.#listening = false;
        await end(client);
      }
      if (this.#quiet) await this.#loud.wait(quietMs, this.#stopping.signal);
      else await sleep(retryDelay.next(), this.#stopping.signal);
    }
  }

  #newClient(broken: Wakeable): ReadingClient {
    const { connection, applicationName, onHint } = this.#options;
    const client = new ReadingClient({
      ...toClientConfig(connection),
      application_name: applicationName,
      connectionTimeoutMillis: checkDeadlineMs,
      query_timeout: checkDeadlineMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    client.on("notification", (message) => onHint(message.payload ?? ""));
    // Without a listener the loss of this connection would end the host process.
    client.on("error", () => broken.wake());
    client.on("end", () => broken.wake());
    return client;
  }

  /** Returns when told to stop; rejects when the connection no longer proves itself. */
  async #watch(client: ReadingClient, broken: Wakeable, onProof: () => void): Promise<void> {
    const { signal } = this.#stopping;
    if (client.pooled) await requireSubscription(client);
    while (!signal.aborted) {
      if (await broken.wait(checkEveryMs, signal)) throw new Error("the connection was lost");
      if (signal.aborted) return;
      if (this.#quiet) continue;
      await requireSubscription(client);
      // Not sooner: a server that accepts and drops connections would be asked ten times a second.
      onProof();
    }
  }
}

class SubscriptionLost extends Error {}

/** A pooler, or an UNLISTEN, may have taken the subscription away and left the connection. */
async function requireSubscription(client: ReadingClient): Promise<void> {
  const { rowCount } = await client.query("select from pg_listening_channels()");
  if (rowCount === 0) throw new SubscriptionLost("the subscription was lost");
}

async function end(client: ReadingClient): Promise<void> {
  // A half-open connection never answers a goodbye.
  await settledWithin(
    500,
    client.end().catch(() => undefined),
  );
  (
    client as unknown as { connection?: { stream?: { destroy?: () => void } } }
  ).connection?.stream?.destroy?.();
}
