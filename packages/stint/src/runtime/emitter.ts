type Listener<Payload> = (payload: Payload) => unknown;

/**
 * Calls listeners and isolates the emitter from their failures.
 *
 * The loops that renew leases emit events. A listener that throws, synchronously or later, must not end
 * such a loop. Its error goes to `onError`.
 */
export class Emitter<Events extends Record<string, unknown>> {
  readonly #onError: (error: unknown, name: keyof Events & string) => void;
  readonly #listeners = new Map<keyof Events, { call: Listener<never> }[]>();

  constructor(onError: (error: unknown, name: keyof Events & string) => void) {
    this.#onError = onError;
  }

  /** Call the listener at every event of this name. Returns a function that removes the listener. */
  on<Name extends keyof Events & string>(name: Name, listener: Listener<Events[Name]>): () => void {
    // A separate entry per call, so that a listener added twice can be removed once.
    const entry = { call: listener as Listener<never> };
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), entry]);
    return () => {
      const rest = this.#listeners.get(name) ?? [];
      this.#listeners.set(
        name,
        rest.filter((other) => other !== entry),
      );
    };
  }

  /** Whether the event has a listener. Checked before building events that are expensive to describe. */
  hasListener(name: keyof Events & string): boolean {
    return (this.#listeners.get(name)?.length ?? 0) > 0;
  }

  emit<Name extends keyof Events & string>(name: Name, payload: Events[Name]): void {
    for (const { call } of this.#listeners.get(name) ?? []) {
      try {
        const returned = (call as Listener<Events[Name]>)(payload);
        // Any thenable: promises of other libraries cause unhandled rejections, too.
        if (typeof (returned as { then?: unknown } | null | undefined)?.then === "function") {
          Promise.resolve(returned).catch((error: unknown) => this.#report(error, name));
        }
      } catch (error) {
        this.#report(error, name);
      }
    }
  }

  #report(error: unknown, name: keyof Events & string): void {
    try {
      this.#onError(error, name);
    } catch {
      // `onError` itself failed. The emitting loop must continue.
    }
  }
}
