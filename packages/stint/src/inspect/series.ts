import type { Run } from "../db/db.ts";
import { samples, seriesSteps, type Sample, type SeriesStep, type Step } from "../sql/series.ts";
import { highest, sumSeries, toPoint } from "./figures.ts";
import type { Series, SeriesPoint, SeriesRange } from "./types.ts";

const hourMs = 3_600_000;
/** Counts of a step may be committed this long after its end. */
const lateMs = 5_000;

/** For each range: its length, the stored step it reads, and the width of a point. At most a few hundred points. */
const ranges: Record<SeriesRange, { backMs: number; stepSeconds: Step; widthMs: number }> = {
  "1h": { backMs: hourMs, stepSeconds: 10, widthMs: 10_000 },
  "6h": { backMs: 6 * hourMs, stepSeconds: 60, widthMs: 60_000 },
  "24h": { backMs: 24 * hourMs, stepSeconds: 600, widthMs: 600_000 },
  "7d": { backMs: 168 * hourMs, stepSeconds: 3_600, widthMs: hourMs },
  "30d": { backMs: 720 * hourMs, stepSeconds: 3_600, widthMs: 3 * hourMs },
};

export async function series(
  db: Run,
  { queue = null, kind = null, range }: { queue?: string | null; kind?: string | null; range: SeriesRange },
): Promise<Series> {
  const { backMs, stepSeconds, widthMs } = ranges[range];
  const input = { stepSeconds, backMs, queue, kind };
  const [steps, sampled] = await Promise.all([seriesSteps(db, input), samples(db, input)]);
  const now = steps[0]?.now ?? new Date();
  return {
    queue,
    kind,
    range,
    stepMs: widthMs,
    completeUntil: new Date(Math.floor((now.getTime() - lateMs) / widthMs) * widthMs),
    points: toPoints(steps, new Standing(sampled, now), { now, backMs, widthMs }),
  };
}

/** The start of every point; the last one has just begun. */
function toPoints(
  steps: readonly SeriesStep[],
  standing: Standing,
  { now, backMs, widthMs }: { now: Date; backMs: number; widthMs: number },
): SeriesPoint[] {
  const startOf = (at: Date): number => Math.floor(at.getTime() / widthMs) * widthMs;
  const byStart = new Map<number, SeriesStep[]>();
  for (const step of steps) {
    const start = startOf(step.at);
    const own = byStart.get(start);
    if (own === undefined) byStart.set(start, [step]);
    else own.push(step);
  }
  const count = backMs / widthMs;
  const last = startOf(now);
  return Array.from({ length: count }, (_, n) => {
    const start = last - (count - 1 - n) * widthMs;
    const sums = sumSeries(byStart.get(start) ?? []);
    const stood = standing.by(start + widthMs);
    return {
      at: new Date(start),
      ...toPoint(sums),
      ...stood,
      // Jobs of a healthy queue are claimed between two samples: only their waits show how old the oldest became.
      oldestReadyMs: highest([stood.oldestReadyMs, sums.longestWaitMs]),
    };
  });
}

type Stands = Pick<SeriesPoint, "ready" | "running" | "oldestReadyMs">;

/** The depth at a time: the last sample of each queue, or of all together, by then. Times must be read in ascending order. */
class Standing {
  readonly #samples: readonly Sample[];
  readonly #now: number;
  readonly #queues = new Map<string | null, { ready: number; running: number; oldestAt: number }>();
  #next = 0;

  /** @param samples Oldest first. */
  constructor(samples: readonly Sample[], now: Date) {
    this.#samples = samples;
    this.#now = now.getTime();
  }

  /** Includes the samples of steps that ended by then. A job that waited at the sample still waits, so ages grow. */
  by(end: number): Stands {
    for (let sample = this.#samples[this.#next]; sample !== undefined && sample.at.getTime() <= end;) {
      this.#take(sample);
      sample = this.#samples[++this.#next];
    }
    if (this.#queues.size === 0) return { ready: null, running: null, oldestReadyMs: null };
    const all = [...this.#queues.values()];
    const oldestAt = all.reduce((oldest, queue) => Math.min(oldest, queue.oldestAt), Infinity);
    return {
      ready: all.reduce((sum, { ready }) => sum + ready, 0),
      running: all.reduce((sum, { running }) => sum + running, 0),
      oldestReadyMs: oldestAt === Infinity ? null : Math.max(0, Math.min(end, this.#now) - oldestAt),
    };
  }

  #take({ queue, at, ready, running, oldestReadyMs }: Sample): void {
    // From a sample of all queues together to samples per queue.
    const isKnown = this.#queues.has(queue) || this.#queues.delete(null);
    // A requested kind without a row in the queue's sample has no jobs there.
    if (ready === null && !isKnown) return;
    const sampledAt = Math.min(at.getTime(), this.#now);
    const oldestAt = oldestReadyMs === null ? Infinity : sampledAt - oldestReadyMs;
    this.#queues.set(queue, { ready: ready ?? 0, running: running ?? 0, oldestAt });
  }
}
