/** Shares one result among concurrent callers: ten open screens cost the database as much as one. */
export class Shared<T> {
  readonly #ask: () => Promise<T>;
  readonly #freshMs: number;
  #answer: { value: Promise<T>; at: number } | undefined;

  constructor(freshMs: number, ask: () => Promise<T>) {
    this.#freshMs = freshMs;
    this.#ask = ask;
  }

  /** `freshMs`: the oldest result this caller accepts. */
  async get(freshMs = this.#freshMs): Promise<T> {
    const now = performance.now();
    if (this.#answer === undefined || now - this.#answer.at > freshMs) {
      const value = this.#ask();
      const answer = { value, at: now };
      this.#answer = answer;
      value.catch(() => {
        // Failures are not shared with later callers.
        if (this.#answer === answer) this.#answer = undefined;
      });
    }
    return await this.#answer.value;
  }
}

/** Derives a value once per result. */
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
