import type { Health } from "stint";
import { problemOf } from "./problem.ts";

export type StreamLimits = { readonly streams: number; readonly streamsPerUser: number };

/** How often the health is looked at while somebody listens. */
const everyMs = 2_000;
/** Proxies end connections on which nothing is said; and a listener who is gone is noticed by writing. */
const pingEveryMs = 15_000;
/** Then the listener comes back by itself, and is asked again who it is. */
const longestMs = 10 * 60_000;

type Listener = { readonly user: string; send(text: string): void; end(): void };

/** Live updates: one look at the health for all who listen, none while nobody does. */
export class Events {
  readonly #listeners = new Set<Listener>();
  readonly #health: () => Promise<Health>;
  readonly #limits: StreamLimits;
  #timer: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  #last: string | undefined;
  #looking = false;
  #closed = false;

  constructor(health: () => Promise<Health>, limits: StreamLimits) {
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
        listener.send(`retry: 3000\n\n${this.#last ?? ""}`);
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
    this.#ping ??= setInterval(() => this.#send(": ping\n\n"), pingEveryMs).unref();
    if (this.#timer === undefined && !this.#looking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    try {
      this.#last = event("health", await this.#health());
      this.#send(this.#last);
    } catch (error) {
      this.#last = undefined;
      const { code, message } = problemOf(error) ?? {
        code: "INTERNAL",
        message: "The health could not be read.",
      };
      this.#send(event("problem", { code, message }));
    } finally {
      this.#looking = false;
    }
    if (this.#listeners.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#look();
    }, everyMs).unref();
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
  }
}

/** JSON has no line breaks of its own, so the data is one line. */
function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
