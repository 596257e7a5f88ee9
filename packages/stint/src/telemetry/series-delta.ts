import { counterNames, countsBy, type Counts } from "../model/counters.ts";
import type { SeriesRow, TenantRow } from "../sql/series.ts";
import type { Histogram } from "./histogram.ts";
import type { KindMeter, Meter } from "./meter.ts";

const mostTenants = 20;

type HistogramCounts = { readonly counts: readonly number[]; readonly sumMs: number };
type Sent = { readonly counts: Counts; readonly wait: HistogramCounts; readonly run: HistogramCounts };

export type Delta = { readonly rows: readonly SeriesRow[]; readonly tenants: readonly TenantRow[] };

/** What a meter counted since its counts were last sent to the database. */
export class SeriesDelta {
  readonly #meter: Meter;
  #sent = new Map<KindMeter, Sent>();
  /** The longest wait of each kind that has not been sent. */
  readonly #longest = new Map<KindMeter, number>();

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  /** Whether there is anything to send. */
  get any(): boolean {
    return this.#meter.kinds().some((kind) => this.#rowOf(kind) !== undefined);
  }

  /**
   * The counts to send now. Call `markSent` once they were sent, or may have been: counting twice is worse than losing ten seconds of a
   * chart. Tenants are taken at once, sent or not.
   */
  take(): Delta & { markSent: () => void } {
    const kinds = this.#meter.kinds();
    for (const kind of kinds)
      this.#longest.set(kind, Math.max(this.#longest.get(kind) ?? 0, kind.wait.takeLongest()));
    const rows = kinds.flatMap((kind) => this.#rowOf(kind) ?? []);
    const now = new Map(kinds.map((kind) => [kind, copyOf(kind)]));
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
    const row: { -readonly [name in keyof SeriesRow]?: SeriesRow[name] } = {};
    for (const counter of counterNames) {
      const more = kind[counter] - (sent?.counts[counter] ?? 0);
      if (more !== 0) row[counter] = more;
    }
    for (const name of ["wait", "run"] as const) {
      const before = sent?.[name];
      const more = kind[name].counts.map((count, bucket) => count - (before?.counts[bucket] ?? 0));
      if (more.every((count) => count === 0)) continue;
      row[name] = more;
      row[`${name}Ms`] = kind[name].sumMs - (before?.sumMs ?? 0);
    }
    if (row.wait !== undefined) row.longestWaitMs = this.#longest.get(kind) ?? 0;
    if (Object.keys(row).length === 0) return undefined;
    return { queue: kind.queue, kind: kind.kind, ...row };
  }
}

function copyOf(kind: KindMeter): Sent {
  const copy = ({ counts, sumMs }: Histogram): HistogramCounts => ({ counts: [...counts], sumMs });
  return { counts: countsBy((counter) => kind[counter]), wait: copy(kind.wait), run: copy(kind.run) };
}
