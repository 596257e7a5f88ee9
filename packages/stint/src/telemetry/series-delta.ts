import type { SeriesCounter, SeriesRow, TenantRow } from "../sql/series.ts";
import type { Histogram } from "./histogram.ts";
import type { KindMeter, Meter } from "./meter.ts";

const counters = [
  ["claimed", "claimed"],
  ["succeeded", "succeeded"],
  ["failed", "failed"],
  ["timedOut", "timed_out"],
  ["retried", "retried"],
  ["dead", "dead"],
  ["cancelled", "cancelled"],
  ["snoozed", "snoozed"],
  ["released", "released"],
  ["rescued", "rescued"],
  ["leaseLost", "lease_lost"],
  ["slow", "slow"],
  ["attemptsOfSucceeded", "attempts_of_succeeded"],
] as const satisfies [keyof KindMeter, SeriesCounter][];

const mostTenants = 20;

type Spread = { readonly counts: readonly number[]; readonly sumMs: number };
type Sent = { readonly values: readonly number[]; readonly wait: Spread; readonly run: Spread };

export type Delta = { readonly rows: readonly SeriesRow[]; readonly tenants: readonly TenantRow[] };

/** What a meter counted since it was last told to somebody. */
export class SeriesDelta {
  readonly #meter: Meter;
  #sent = new Map<KindMeter, Sent>();
  /** The longest wait of each kind that has not been told. */
  readonly #longest = new Map<KindMeter, number>();

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** Whether there is anything to tell. */
  get any(): boolean {
    return this.#meter.kinds().some((kind) => this.#rowOf(kind) !== undefined);
  }

  /**
   * What is to be told now. Call `told` when it was, or may have been: what is told twice would be counted twice, and what is
   * lost is ten seconds of a chart. Tenants are counted anew at once.
   */
  take(): Delta & { markSent: () => void } {
    const kinds = this.#meter.kinds();
    for (const kind of kinds)
      this.#longest.set(kind, Math.max(this.#longest.get(kind) ?? 0, kind.wait.takeLongest()));
    const rows = kinds.flatMap((kind) => this.#rowOf(kind) ?? []);
    const now = new Map(kinds.map((kind) => [kind, standing(kind)]));
    const tenants = this.#meter.tenants
      .take(mostTenants)
      .map(([tenant, { ended, runMs }]) => ({ tenant, ended, run_ms: runMs }));
    return { rows, tenants, markSent: () => this.#markSent(now) };
  }

  #markSent(now: Map<KindMeter, Sent>): void {
    this.#sent = now;
    this.#longest.clear();
  }

  #rowOf(kind: KindMeter): SeriesRow | undefined {
    const sent = this.#sent.get(kind);
    const row: Record<string, unknown> = {};
    for (const [index, [counter, column]] of counters.entries()) {
      const more = kind[counter] - (sent?.values[index] ?? 0);
      if (more !== 0) row[column] = more;
    }
    for (const [name, spread] of [
      ["wait", kind.wait],
      ["run", kind.run],
    ] as const) {
      const before = sent?.[name];
      const more = spread.counts.map((count, bucket) => count - (before?.counts[bucket] ?? 0));
      if (more.every((count) => count === 0)) continue;
      row[name] = more;
      row[`${name}_ms`] = spread.sumMs - (before?.sumMs ?? 0);
    }
    if (row["wait"] !== undefined) row["longest_wait_ms"] = this.#longest.get(kind) ?? 0;
    if (Object.keys(row).length === 0) return undefined;
    return { queue: kind.queue, kind: kind.kind, ...row };
  }
}

function standing(kind: KindMeter): Sent {
  const copy = ({ counts, sumMs }: Histogram): Spread => ({ counts: [...counts], sumMs });
  return { values: counters.map(([counter]) => kind[counter]), wait: copy(kind.wait), run: copy(kind.run) };
}
