export type SleepModeOptions = {
  /** How long without work before the worker falls asleep; undefined if it never does. */
  readonly afterMs: number | undefined;
  /** Say so in the database, as the last thing. False: it could not be said. */
  readonly record: () => Promise<boolean>;
  /** Stop everything that sends statements by itself. */
  readonly fallAsleep: () => void;
  /** Start it again, and look around. */
  readonly wakeUp: () => void;
};

/** The sleep of a worker with nothing to do: not one statement, so that the database can sleep, too. */
export class SleepMode {
  readonly #options: SleepModeOptions;
  #activeAt = performance.now();
  #asleep = false;
  #ended = false;
  #alarm: NodeJS.Timeout | undefined;

  constructor(options: SleepModeOptions) {
    this.#options = options;
  }

  get isAsleep(): boolean {
    return this.#asleep;
  }

  /** Something happened. Ends the sleep. */
  activity(): void {
    this.#activeAt = performance.now();
    if (this.#alarm === undefined) return;
    this.#wake();
    this.#options.wakeUp();
  }

  /** The worker is idle: fall asleep if it has been idle for long enough, until an upkeep service has work. */
  async consider(nextDueMs: number | null): Promise<void> {
    const { afterMs, record, fallAsleep } = this.#options;
    const at = performance.now();
    if (afterMs === undefined || this.#asleep || at - this.#activeAt < afterMs) return;
    const untilMs = nextDueMs ?? Infinity;
    // Hardly worth it.
    if (untilMs < shortestMs) return;
    // From now on, so that whatever else is said meanwhile says the same.
    this.#asleep = true;
    const said = await record().catch(() => false);
    // A wake may have come while that was said, or the end.
    if (!said || this.#activeAt > at || this.#ended) {
      this.#asleep = false;
      return;
    }
    this.#alarm = setTimeout(() => this.activity(), Math.min(untilMs, longestMs));
    fallAsleep();
  }

  /** Sleep no more. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  #wake(): void {
    this.#asleep = false;
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
  }
}

const shortestMs = 1_000;
/** Not every wake arrives: one that was decided on before anybody listened is not sent when its transaction commits. */
const longestMs = 900_000;
