import { changeOf, toSnapshot, type Change, type Snapshot } from "./health-changes.ts";
import { problemOf } from "./problem.ts";

export type StreamLimits = {
  readonly streams: number;
  readonly streamsPerUser: number;
  readonly refreshMs: number;
};

/** The pause between two reads of the health grows up to this while nothing changes. */
const longestPauseMs = 5_000;
/**
 * Every listener gets an event this often, also while the health cannot be read. A page without events for 10 s says that the server
 * does not respond. Proxies close idle connections, and only a write detects a closed one.
 */
const pingEveryMs = 3_000;
/** Then the stream ends; the browser reconnects and is authorized again. */
const longestMs = 10 * 60_000;

type Listener = { readonly user: string; send(text: string): void; end(): void };

/** Live updates: one read of the health for all listeners, none without listeners. */
export class Events {
  readonly #listeners = new Set<Listener>();
  readonly #health: () => Promise<string>;
  readonly #limits: StreamLimits;
  #timer: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  /** The snapshot that all listeners have. */
  #last: Snapshot | undefined;
  #pauseMs = 0;
  #looking = false;
  #closed = false;

  /** `health` returns JSON. */
  constructor(health: () => Promise<string>, limits: StreamLimits) {
    this.#health = health;
    this.#limits = limits;
    this.#pauseMs = limits.refreshMs;
  }

  get listening(): number {
    return this.#listeners.size;
  }

  /** A stream of server-sent events; undefined when there are too many. */
  open(user: string): ReadableStream<Uint8Array> | undefined {
    const mine = [...this.#listeners].filter((listener) => listener.user === user).length;
    if (this.#closed || this.#listeners.size >= this.#limits.streams || mine >= this.#limits.streamsPerUser)
      return undefined;

    const encoder = new TextEncoder();
    let leave = (): boolean => false;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        const end = (): void => {
          if (leave()) controller.close();
        };
        const timer = setTimeout(end, longestMs).unref();
        const listener: Listener = {
          user,
          end,
          send: (text) => {
            // Bounds the buffer of a client that does not read.
            if ((controller.desiredSize ?? 0) < -64) end();
            else controller.enqueue(encoder.encode(text));
          },
        };
        leave = () => {
          clearTimeout(timer);
          const was = this.#listeners.delete(listener);
          this.#rest();
          return was;
        };
        this.#listeners.add(listener);
        const known = this.#last === undefined ? "" : event("health", JSON.stringify(this.#last));
        listener.send(`retry: 3000\n\n${known}`);
        this.#begin();
      },
      // A cancelled stream is closed already.
      cancel: () => void leave(),
    });
  }

  close(): void {
    this.#closed = true;
    for (const listener of this.#listeners) listener.end();
    this.#rest();
  }

  #begin(): void {
    this.#ping ??= setInterval(() => this.#send(event("ping", "{}")), pingEveryMs).unref();
    if (this.#timer === undefined && !this.#looking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    const began = performance.now();
    try {
      const next = toSnapshot(await this.#health());
      const tookMs = performance.now() - began;
      // Listeners that joined during the read have the previous snapshot.
      const last = this.#last;
      this.#last = next;
      const change = last === undefined ? undefined : changeOf(last, next);
      this.#pauseMs = nextPauseMs({
        leastMs: this.#limits.refreshMs,
        beforeMs: this.#pauseMs,
        tookMs,
        changed: change === undefined || !isIdle(change),
      });
      this.#send(
        change === undefined
          ? event("health", JSON.stringify(next))
          : event("health-change", JSON.stringify(change)),
      );
    } catch (error) {
      this.#last = undefined;
      const { code, message } = problemOf(error) ?? {
        code: "INTERNAL",
        message: "The health could not be read.",
      };
      this.#send(event("problem", JSON.stringify({ code, message })));
    } finally {
      this.#looking = false;
    }
    if (this.#listeners.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#look();
    }, this.#pauseMs).unref();
  }

  #send(text: string): void {
    for (const listener of this.#listeners) listener.send(text);
  }

  /** Without listeners, stop reading. */
  #rest(): void {
    if (this.#listeners.size > 0) return;
    clearTimeout(this.#timer);
    clearInterval(this.#ping);
    this.#timer = undefined;
    this.#ping = undefined;
    this.#last = undefined;
    this.#pauseMs = this.#limits.refreshMs;
  }
}

/** JSON has no line breaks of its own, so the data is one line. */
function event(name: string, json: string): string {
  return `event: ${name}\ndata: ${json}\n\n`;
}

/** Only the time of the read changed. */
function isIdle(change: Change): boolean {
  return change.queues.length === 0 && Object.keys(change).every((key) => key === "at" || key === "queues");
}

type Read = {
  readonly leastMs: number;
  readonly beforeMs: number;
  readonly tookMs: number;
  readonly changed: boolean;
};

/**
 * Reading the health takes at most 2 % of the time, so that viewers do not slow down a busy database. The pause grows while nothing
 * changes.
 */
export function nextPauseMs({ leastMs, beforeMs, tookMs, changed }: Read): number {
  const ms = Math.max(leastMs, tookMs * 50, changed ? 0 : beforeMs * 1.5);
  return Math.min(Math.max(leastMs, longestPauseMs), ms);
}
