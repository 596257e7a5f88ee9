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
  /** Called when listening starts or restarts. Notifications sent before were missed. */
  onListening: () => void;
  /** Listen behind a pooler, too. In transaction mode the pooler drops the subscription, which ends the listening. */
  throughPooler?: boolean;
  /** Called when a pooler is detected: listening has ended permanently. */
  onPooler?: (message: string) => void;
  onTrouble: (message: string) => void;
};

const checkEveryMs = 30_000;
/** How long a quiet listener waits before it reconnects. */
const quietMs = 900_000;
const checkDeadlineMs = 5_000;

/**
 * Receives wakes on a dedicated connection. A half-open socket looks exactly like an idle one, so the connection is checked
 * every few seconds and replaced when the check fails.
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

  /** Send nothing: no connection checks, and no reconnect for a long time if the connection is lost. */
  quiet(): void {
    this.#quiet = true;
    // A new one: a wake kept from before must not end this sleep.
    this.#loud = new Wakeable();
  }

  /** Resume the connection checks. */
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
      // One per connection: the end of the previous connection must not count as the end of this one.
      const broken = new Wakeable();
      const client = this.#newClient(broken);
      try {
        await client.connect();
        await client.firstStatement();
        // In a shared session other clients would own the subscription.
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
    // Without an error listener the loss of this connection would end the host process.
    client.on("error", () => broken.wake());
    client.on("end", () => broken.wake());
    return client;
  }

  /** Returns after `stop`; rejects when a connection check fails. */
  async #watch(client: ReadingClient, broken: Wakeable, onProof: () => void): Promise<void> {
    const { signal } = this.#stopping;
    if (client.pooled) await requireSubscription(client);
    while (!signal.aborted) {
      if (await broken.wait(checkEveryMs, signal)) throw new Error("the connection was lost");
      if (signal.aborted) return;
      if (this.#quiet) continue;
      await requireSubscription(client);
      // Not earlier: a server that accepts and drops connections would see ten connects a second.
      onProof();
    }
  }
}

class SubscriptionLost extends Error {}

/** A pooler or an UNLISTEN may have removed the subscription while the connection stays open. */
async function requireSubscription(client: ReadingClient): Promise<void> {
  const { rowCount } = await client.query("select from pg_listening_channels()");
  if (rowCount === 0) throw new SubscriptionLost("the subscription was lost");
}

async function end(client: ReadingClient): Promise<void> {
  // A half-open connection never acknowledges its end.
  await settledWithin(
    500,
    client.end().catch(() => undefined),
  );
  (
    client as unknown as { connection?: { stream?: { destroy?: () => void } } }
  ).connection?.stream?.destroy?.();
}
