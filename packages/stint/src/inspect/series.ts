import type { Run } from "../db/db.ts";
import { seriesSteps, type SeriesStep } from "../sql/series.ts";
import { sumSeries, toPoint } from "./figures.ts";
import type { Series, SeriesPoint, SeriesRange } from "./types.ts";

const hourMs = 3_600_000;

/** How far back, by which of the steps that are kept, and how wide a point is: a few hundred at most. */
const ranges: Record<SeriesRange, { backMs: number; stepSeconds: number; widthMs: number }> = {
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
  const steps = await seriesSteps(db, { stepSeconds, backMs, queue, kind });
  const now = steps[0]?.now ?? new Date();
  return { queue, kind, range, stepMs: widthMs, points: toPoints(steps, now, backMs, widthMs) };
}

/** One for every width, the last of which has just begun. */
function toPoints(steps: readonly SeriesStep[], now: Date, backMs: number, widthMs: number): SeriesPoint[] {
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
    const own = (byStart.get(start) ?? []).sort((a, b) => a.at.getTime() - b.at.getTime());
    const sample = own.findLast(({ ready }) => ready !== null);
    return {
      at: new Date(start),
      ...toPoint(sumSeries(own)),
      ready: sample?.ready ?? null,
      running: sample?.running ?? null,
      oldestReadyMs: sample?.oldestReadyMs ?? null,
    };
  });
}
