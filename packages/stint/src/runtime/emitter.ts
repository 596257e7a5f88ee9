type Listener<Payload> = (payload: Payload) => unknown;

/**
 * Calls listeners, and keeps their failures away from whoever emits.
 *
 * Events are emitted from the loops that keep leases alive; a listener that throws, at once or later, must
 * not be able to end one. Its error goes to `onError`.
 */
export class Emitter<Events extends Record<string, unknown>> {
  readonly #onError: (error: unknown, name: keyof Events & string) => void;
  readonly #listeners = new Map<keyof Events, { call: Listener<never> }[]>();

  constructor(onError: (error: unknown, name: keyof Events & string) => void) {
    this.#onError = onError;
  }

  /** Call the listener at every such event. Returns a function that ends this. */
  on<Name extends keyof Events & string>(name: Name, listener: Listener<Events[Name]>): () => void {
    // An entry of its own, so that a listener added twice can be taken away once.
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

  /** Whether anybody listens: for events that are dear to describe. */
  heard(name: keyof Events & string): boolean {
    return (this.#listeners.get(name)?.length ?? 0) > 0;
  }

  emit<Name extends keyof Events & string>(name: Name, payload: Events[Name]): void {
    for (const { call } of this.#listeners.get(name) ?? []) {
      try {
        const returned = (call as Listener<Events[Name]>)(payload);
        // Any thenable: the promises of other libraries reject unheard just as well.
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
      // The last resort failed too; the emitter's loop still goes on.
    }
  }
}
