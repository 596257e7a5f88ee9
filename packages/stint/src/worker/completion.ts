import type { Completed } from "../model/outcome.ts";

/**
 * What `complete(…)` returns. A handler that does not await it must neither end the process with an unhandled rejection nor
 * pass for successful when its transaction failed, so the promise knows whether anything waits for it.
 */
export class Completion extends Promise<Completed> {
  /** Set by `then`, which `await` calls, too, because this is not a plain promise. */
  #awaited = false;
  #failure: { readonly error: unknown } | undefined;

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  static of(work: () => Promise<Completed>): Completion {
    const completion = new Completion((resolve, reject) => void work().then(resolve, reject));
    void completion.#watch((error) => (completion.#failure = { error }));
    return completion;
  }

  // oxlint-disable-next-line unicorn/no-thenable
  override then<A = Completed, B = never>(
    onFulfilled?: ((value: Completed) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#awaited = true;
    return super.then(onFulfilled, onRejected);
  }

  /** Wait for its end without counting as awaiting it. Never rejects. */
  async ended(): Promise<void> {
    await this.#watch(() => undefined);
  }

  /** What it failed with, if nothing else has heard of that. */
  get unheard(): { readonly error: unknown } | undefined {
    return this.#awaited ? undefined : this.#failure;
  }

  #watch(onFailed: (error: unknown) => void): Promise<unknown> {
    return super.then(() => undefined, onFailed);
  }
}
