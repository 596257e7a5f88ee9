/** Upper bounds. Few jobs need more attempts; a last bucket takes those. */
export const attemptBounds: readonly number[] = [1, 2, 3, 4, 5, 7, 10, 15, 20, 25];

/** How many attempts succeeded jobs took. Nearly all take one, which costs one addition. */
export class Attempts {
  /** One for each bound and one for more attempts. Not cumulative. */
  readonly counts: number[] = Array.from({ length: attemptBounds.length + 1 }, () => 0);

  add(attempts: number): void {
    let bucket = 0;
    while (bucket < attemptBounds.length && attempts > (attemptBounds[bucket] ?? Infinity)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
  }
}
