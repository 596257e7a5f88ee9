/** One question for all who ask at about the same time: ten open screens cost the database what one does. */
export class Shared<T> {
  readonly #ask: () => Promise<T>;
  readonly #freshMs: number;
  #answer: { value: Promise<T>; at: number } | undefined;

  constructor(freshMs: number, ask: () => Promise<T>) {
    this.#freshMs = freshMs;
    this.#ask = ask;
  }

  async get(): Promise<T> {
    const now = performance.now();
    if (this.#answer === undefined || now - this.#answer.at > this.#freshMs) {
      const value = this.#ask();
      const answer = { value, at: now };
      this.#answer = answer;
      value.catch(() => {
        // A failure is not kept: the next one asks again.
        if (this.#answer === answer) this.#answer = undefined;
      });
    }
    return await this.#answer.value;
  }
}
