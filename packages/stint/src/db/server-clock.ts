import { codeOf } from "./sqlstate.ts";

/** The initial deadline of a statement after its send. A repeat has to wait until the deadline, so it is short. */
const firstGraceMs = 3_000;
const longestGraceMs = 15_000;

/** SQLSTATEs of `stint.too_late()` and `stint.too_early()`. */
const tooLate = "ST001";
const tooEarly = "ST002";

/**
 * An estimate of the database's clock, in milliseconds since 1970. It gives statements their deadlines, which the database
 * checks by its own clock. A wrong estimate costs one round trip and is then corrected.
 */
export class ServerClock {
  readonly #localMs: () => number;
  #aheadMs: number;
  /** Whether the estimate is more than the first guess. */
  #isLearned = false;

  /** @param localMs A monotonic clock. It may stop while the host is suspended. */
  constructor(localMs: () => number = () => performance.now(), firstGuessMs = Date.now()) {
    this.#localMs = localMs;
    this.#aheadMs = firstGuessMs - localMs();
  }

  nowMs(): number {
    return this.#localMs() + this.#aheadMs;
  }

  /** The local time, to be passed to `learn` as the time of a send. */
  get localMs(): number {
    return this.#localMs();
  }

  /**
   * Update the estimate from a result that has just been read. The database read its clock between the send and now, so an estimate is never ahead of it. One
   * that agrees is not set back: this process may have been stopped or busy for long before it read the result.
   */
  learn(serverMs: number, sentMs: number): void {
    if (!Number.isFinite(serverMs)) return;
    const leastMs = serverMs - this.#localMs();
    const agrees = this.#isLearned && this.#aheadMs <= serverMs - sentMs;
    this.#aheadMs = agrees ? Math.max(this.#aheadMs, leastMs) : leastMs;
    this.#isLearned = true;
  }

  /** Update the estimate from a refusal: too-late and too-early errors carry the database's time. */
  learnFrom(error: unknown, sentMs: number): void {
    if (isTooLate(error) || isTooEarly(error))
      this.learn(Date.parse((error as { detail?: string }).detail ?? ""), sentMs);
  }

  /** The deadline of a statement sent now. It grows with each consecutive refusal as too late. */
  deadline(refusals = 0, longestMs = longestGraceMs): number {
    return this.nowMs() + Math.min(firstGraceMs * 2 ** refusals, longestMs);
  }
}

/** The statement reached the database after its deadline and changed nothing. */
export function isTooLate(error: unknown): boolean {
  return codeOf(error) === tooLate;
}

/** The repeat reached the database before the deadline of the first send and changed nothing. */
export function isTooEarly(error: unknown): boolean {
  return codeOf(error) === tooEarly;
}

/** The time as a parameter of a statement. */
export function toTimestamp(serverMs: number): string {
  return new Date(serverMs).toISOString();
}
