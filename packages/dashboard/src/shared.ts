/** Shares one result among concurrent callers: ten open screens cost the database as much as one. */
export class Shared<T> {
  readonly #read: () => Promise<T>;
  readonly #freshMs: number;
  #latest: { value: Promise<T>; at: number } | undefined;

  constructor(freshMs: number, read: () => Promise<T>) {
    this.#freshMs = freshMs;
    this.#read = read;
  }

  /** `freshMs`: the oldest result this caller accepts. */
  async get(freshMs = this.#freshMs): Promise<T> {
    const now = performance.now();
    if (this.#latest === undefined || now - this.#latest.at > freshMs) {
      const value = this.#read();
      const result = { value, at: now };
      this.#latest = result;
      value.catch(() => {
        // Failures are not shared with later callers.
        if (this.#latest === result) this.#latest = undefined;
      });
    }
    return await this.#latest.value;
  }

  /** The next caller reads again: the last result predates a change. */
  forget(): void {
    this.#latest = undefined;
  }
}

/** Derives a value once per result. */
export function onceOf<Result extends object, Made>(
  make: (result: Result) => Made,
): (result: Result) => Made {
  const made = new WeakMap<Result, Made>();
  return (result) => {
    const known = made.get(result);
    if (known !== undefined) return known;
    const fresh = make(result);
    made.set(result, fresh);
    return fresh;
  };
}
