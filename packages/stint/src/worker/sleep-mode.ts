export type SleepModeOptions = {
  /** How long without work until the worker sleeps; undefined if it never does. */
  readonly afterMs: number | undefined;
  /** Record it in the worker's row, as the last statement. False: the row is gone. */
  readonly record: () => Promise<boolean>;
  /** Stop everything that sends statements on its own. */
  readonly fallAsleep: () => void;
  /** Start all of it again, and look for work. */
  readonly wakeUp: () => void;
};

/** Sleep mode of an idle worker: it sends no statement at all, so that the database can sleep, too. */
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

  /** There was work, or a wake. Ends sleep mode. */
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
    // Too short to be worth it.
    if (untilMs < shortestMs) return;
    // Set first, so that a concurrent update of the row records the same state.
    this.#asleep = true;
    const recorded = await record().catch(() => false);
    // A wake or the end of the worker may have come meanwhile.
    if (!recorded || this.#activeAt > at || this.#ended) {
      this.#asleep = false;
      return;
    }
    this.#alarm = setTimeout(() => this.activity(), Math.min(untilMs, longestMs));
    fallAsleep();
  }

  /** The worker ends: sleep no more. */
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
/** Look for work at least this often: an enqueuer that saw no listening worker sends no wake when its transaction commits later. */
const longestMs = 900_000;
