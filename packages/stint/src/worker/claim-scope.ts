import { isPattern, toLike } from "../model/name-pattern.ts";
import type { QueueMap } from "../model/queue-pattern.ts";

/** A reason to claim less for a while. Each part is optional, and is asked again before every claim. */
export type ClaimExclusion = {
  /** Whether nothing at all may be claimed now. */
  readonly everything?: () => boolean;
  readonly kinds?: () => ReadonlySet<string>;
  /** Names of queues, and patterns. */
  readonly queues?: () => QueueMap<unknown>;
};

/**
 * Which queues and kinds the next claim asks for: those the worker serves, without those that an exclusion leaves out. The claim
 * statement knows nothing of exclusions; a new one (a paused queue, an open breaker) registers here.
 *
 * An exclusion that ends must hint at the claim loop, because the loop forgets no hint but does not poll for ended exclusions.
 */
export class ClaimScope {
  readonly #kinds: readonly string[];
  readonly #queues: readonly string[];
  /** For every queue that matches. */
  readonly patterns: readonly string[];
  readonly #exclusions: ClaimExclusion[] = [];

  /** @param served The kinds, queue names and patterns the worker serves. */
  constructor(served: { readonly kinds: Iterable<string>; readonly queues: readonly string[] }) {
    this.#kinds = [...served.kinds];
    this.#queues = served.queues.filter((queue) => !isPattern(queue));
    this.patterns = served.queues.filter(isPattern);
  }

  /** Ask this exclusion before every claim from now on. */
  exclude(exclusion: ClaimExclusion): void {
    this.#exclusions.push(exclusion);
  }

  /** Whether there is nothing to ask for now. Checked for every job that ends, so it allocates nothing. */
  get isEmpty(): boolean {
    for (const { everything } of this.#exclusions) if (everything?.() === true) return true;
    return this.kinds.length === 0;
  }

  /** The kinds to claim now. */
  get kinds(): readonly string[] {
    if (!this.#excludesKinds()) return this.#kinds;
    return this.#kinds.filter((kind) => !this.#exclusions.some(({ kinds }) => kinds?.().has(kind) === true));
  }

  /** The named queues to claim from now. */
  get queues(): readonly string[] {
    return this.#queues.filter((queue) => !this.excludes(queue));
  }

  /** Whether claims skip this queue now. */
  excludes(queue: string): boolean {
    return this.#exclusions.some(({ queues }) => queues?.().has(queue) === true);
  }

  /** The excluded queues in the syntax of LIKE, for claims by pattern. */
  get excludedPatterns(): readonly string[] {
    return this.#exclusions.flatMap(({ queues }) => {
      const excluded = queues?.();
      return excluded === undefined ? [] : [...excluded.names, ...excluded.patterns].map(toLike);
    });
  }

  #excludesKinds(): boolean {
    for (const { kinds } of this.#exclusions) if (kinds !== undefined && kinds().size > 0) return true;
    return false;
  }
}
