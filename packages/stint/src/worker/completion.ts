import type { Completed } from "../model/outcome.ts";

/**
 * The promise that `complete(…)` and `step(…)` return. It knows whether anything awaits it: a handler that does not must neither end
 * the process with an unhandled rejection nor count as successful when its transaction or its step failed.
 */
export class Completion<T = Completed> extends Promise<T> {
  /** Set by `then`. `await` calls it, too, because this is not a plain promise. */
  #awaited = false;
  #failure: { readonly error: unknown } | undefined;

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  static of<T>(work: () => Promise<T>): Completion<T> {
    const completion = new Completion<T>((resolve, reject) => void work().then(resolve, reject));
    void completion.#watch((error) => (completion.#failure = { error }));
    return completion;
  }

  // oxlint-disable-next-line unicorn/no-thenable
  override then<A = T, B = never>(
    onFulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#awaited = true;
    return super.then(onFulfilled, onRejected);
  }

  /** Wait for its end without counting as an awaiter. Never rejects. */
  async ended(): Promise<void> {
    await this.#watch(() => undefined);
  }

  /** Its failure, if nothing awaits it. */
  get unhandled(): { readonly error: unknown } | undefined {
    return this.#awaited ? undefined : this.#failure;
  }

  #watch(onFailed: (error: unknown) => void): Promise<unknown> {
    return super.then(() => undefined, onFailed);
  }
}
