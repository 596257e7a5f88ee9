import { changeOf, toSnapshot, type Change, type Snapshot } from "./health-changes.ts";
import { problemOf } from "./problem.ts";

export type StreamLimits = { readonly streams: number; readonly streamsPerUser: number };

/** How long after a look at the health the next one follows, while somebody listens. */
const pause = { leastMs: 2_000, mostMs: 5_000, times: 50 };
/**
 * How often every listener hears something, also while the health cannot be read. Pages that hear nothing for 10 s say that the server
 * does not respond. Proxies end silent connections, and writing shows that a listener is gone.
 */
const pingEveryMs = 3_000;
/** Then the listener comes back by itself, and is asked again who it is. */
const longestMs = 10 * 60_000;

type Listener = { readonly user: string; send(text: string): void; end(): void };

/** Live updates: one look at the health for all who listen, none while nobody does. */
export class Events {
  readonly #listeners = new Set<Listener>();
  readonly #health: () => Promise<string>;
  readonly #limits: StreamLimits;
  #timer: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  /** As all who listen know it. */
  #last: Snapshot | undefined;
  #pauseMs = pause.leastMs;
  #looking = false;
  #closed = false;

  /** `health` answers it as JSON. */
  constructor(health: () => Promise<string>, limits: StreamLimits) {
    this.#health = health;
    this.#limits = limits;
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
            // A reader that does not read would let this grow without end.
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
      // Whoever cancels it has closed it.
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
      // Those who came while it was read know what was read before.
      const last = this.#last;
      this.#last = next;
      const change = last === undefined ? undefined : changeOf(last, next);
      this.#pauseMs = nextPauseMs(this.#pauseMs, tookMs, change === undefined || !isIdle(change));
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

  /** Nobody listens: stop looking. */
  #rest(): void {
    if (this.#listeners.size > 0) return;
    clearTimeout(this.#timer);
    clearInterval(this.#ping);
    this.#timer = undefined;
    this.#ping = undefined;
    this.#last = undefined;
    this.#pauseMs = pause.leastMs;
  }
}

/** JSON has no line breaks of its own, so the data is one line. */
function event(name: string, json: string): string {
  return `event: ${name}\ndata: ${json}\n\n`;
}

/** Nothing but the moment at which it was read. */
function isIdle(change: Change): boolean {
  return change.queues.length === 0 && Object.keys(change).every((key) => key === "at" || key === "queues");
}

/**
 * Looking takes at most one part in fifty of the time: those who watch hold up nobody who works, least of all while the database
 * is busy. Where nothing changes there is less to see.
 */
export function nextPauseMs(beforeMs: number, tookMs: number, changed: boolean): number {
  const ms = Math.max(pause.leastMs, tookMs * pause.times, changed ? 0 : beforeMs * 1.5);
  return Math.min(pause.mostMs, ms);
}
