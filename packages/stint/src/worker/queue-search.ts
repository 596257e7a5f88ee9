import { isPattern } from "../model/name-pattern.ts";
import { Sweeps } from "../runtime/sweeps.ts";
import type { QueueRange, ReadyQueues } from "../sql/ready-queues.ts";
import { recheckEmptyMs, maxQueuesPerClaim } from "./queue-turns.ts";

/** How often to search while more queues are in line than a claim asks: a new one would only wait behind them. */
const searchBusyMs = 5_000;

/**
 * The search for queues with ready jobs, for pools with more queues than a claim asks. It reads the ready index in the ranges
 * that hold the queues of those pools, a part at a time, and continues where it stopped.
 */
export class QueueSearch {
  readonly ranges: readonly QueueRange[];
  /** Like a sweep, a full search reads every dead entry of the ready index; its cost is limited in the same way. */
  readonly #sweeps = new Sweeps();
  #after: string | null = null;
  /** Whether there may be queues with ready jobs that it has not found. */
  #open = true;
  #hinted = false;
  #doneAt = -Infinity;

  /** @param queues Names and patterns. */
  constructor(queues: readonly string[]) {
    this.ranges = rangesOf(queues);
  }

  /** Any queue may have ready jobs. */
  hint(): void {
    this.#open = true;
    this.#hinted = true;
  }

  /**
   * How long until the next search is worth a round trip.
   *
   * @param known How many queues with ready jobs are in line. While there are some, others may get jobs, and a busy worker receives
   * no wakes.
   */
  inMs(at: number, known: number): number {
    if (known === 0 && !this.#open) return Infinity;
    const everyMs = known === 0 ? 0 : known < maxQueuesPerClaim ? recheckEmptyMs : searchBusyMs;
    return Math.max(this.#doneAt + everyMs - at, this.#sweeps.inMs(at), 0);
  }

  /** The ranges of the next search. */
  start(): readonly QueueRange[] {
    this.#hinted = false;
    const after = this.#after;
    if (after === null) return this.ranges;
    // No name lies between a name and the same name with the smallest character behind it.
    const first = `${after}\u0001`;
    return this.ranges
      .filter(({ until }) => until === null || until > first)
      .map((range) => (range.first < first ? { first, until: range.until } : range));
  }

  /** A search has returned. */
  done({ after }: ReadyQueues, { sentAt, at }: { sentAt: number; at: number }): void {
    this.#after = after;
    this.#doneAt = at;
    // A search that stopped early found so many queues that it was worth its time.
    if (after === null) this.#sweeps.done(sentAt, at);
    if (after === null && !this.#hinted) this.#open = false;
  }
}

/** Where these queues are in byte order: one range from the first name to the last, one for what each pattern begins with. */
function rangesOf(queues: readonly string[]): QueueRange[] {
  const names = queues.filter((queue) => !isPattern(queue)).sort(byBytes);
  const [first, last] = [names[0], names.at(-1)];
  const ranges: QueueRange[] = queues.filter(isPattern).map(rangeOf);
  if (first !== undefined && last !== undefined) ranges.push({ first, until: `${last}\u0001` });
  const merged: QueueRange[] = [];
  for (const range of ranges.sort((a, b) => byBytes(a.first, b.first))) {
    const before = merged.at(-1);
    if (before === undefined || (before.until !== null && before.until < range.first)) merged.push(range);
    else merged[merged.length - 1] = { first: before.first, until: laterOf(before.until, range.until) };
  }
  return merged;
}

function rangeOf(pattern: string): QueueRange {
  const first = pattern.slice(0, pattern.indexOf("*"));
  // Names are plain ASCII below "z", so the next character exists.
  const until =
    first === "" ? null : first.slice(0, -1) + String.fromCharCode(first.charCodeAt(first.length - 1) + 1);
  return { first, until };
}

function laterOf(a: string | null, b: string | null): string | null {
  return a === null || b === null ? null : a < b ? b : a;
}

/** Names of queues a worker serves are ASCII: the order of JavaScript is that of their bytes. */
function byBytes(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
