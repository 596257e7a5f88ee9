/** One question for all who ask at about the same time: ten open screens cost the database what one does. */
export class Shared<T> {
  readonly #ask: () => Promise<T>;
  readonly #freshMs: number;
  #answer: { value: Promise<T>; at: number } | undefined;

  constructor(freshMs: number, ask: () => Promise<T>) {
    this.#freshMs = freshMs;
    this.#ask = ask;
  }

  /** `freshMs`: how old an answer may be for this one who asks. */
  async get(freshMs = this.#freshMs): Promise<T> {
    const now = performance.now();
    if (this.#answer === undefined || now - this.#answer.at > freshMs) {
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

/** What is made of an answer is made once, however many are told it. */
export function onceOf<Answer extends object, Made>(
  make: (answer: Answer) => Made,
): (answer: Answer) => Made {
  const made = new WeakMap<Answer, Made>();
  return (answer) => {
    const known = made.get(answer);
    if (known !== undefined) return known;
    const fresh = make(answer);
    made.set(answer, fresh);
    return fresh;
  };
}
