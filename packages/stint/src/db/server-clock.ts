import { codeOf } from "./sqlstate.ts";

/** How long after it was sent a statement may take effect, at first. A repeat has to wait for so long, so it is short. */
const firstGraceMs = 3_000;
const longestGraceMs = 15_000;

/** SQLSTATEs of `stint.too_late()` and `stint.too_early()`. */
const tooLate = "ST001";
const tooEarly = "ST002";

/**
 * An estimate of the database's clock, in milliseconds since 1970. It gives statements their deadlines, which the database
 * checks by its own clock; a wrong estimate costs a round trip and is then corrected.
 */
export class ServerClock {
  readonly #localMs: () => number;
  #aheadMs: number;

  /** @param localMs A clock that never goes back. It may stand still while the host is suspended. */
  constructor(localMs: () => number = () => performance.now(), firstGuessMs = Date.now()) {
    this.#localMs = localMs;
    this.#aheadMs = firstGuessMs - localMs();
  }

  nowMs(): number {
    return this.#localMs() + this.#aheadMs;
  }

  /** The database said what time it is; the answer has just come. */
  learn(serverMs: number): void {
    if (Number.isFinite(serverMs)) this.#aheadMs = serverMs - this.#localMs();
  }

  /** Refusals of statements that came too late or too early say what time it is. */
  learnFrom(error: unknown): void {
    if (isTooLate(error) || isTooEarly(error))
      this.learn(Date.parse((error as { detail?: string }).detail ?? ""));
  }

  /** Until when a statement that is sent now may take effect. Longer after each time in a row that it came too late. */
  deadline(refusals = 0, longestMs = longestGraceMs): number {
    return this.nowMs() + Math.min(firstGraceMs * 2 ** refusals, longestMs);
  }
}

/** The statement reached the database after its deadline, and changed nothing. */
export function isTooLate(error: unknown): boolean {
  return codeOf(error) === tooLate;
}

/** A repeat reached the database before the deadline of the statement that it repeats, and changed nothing. */
export function isTooEarly(error: unknown): boolean {
  return codeOf(error) === tooEarly;
}

/** As a parameter. */
export function toTimestamp(serverMs: number): string {
  return new Date(serverMs).toISOString();
}
