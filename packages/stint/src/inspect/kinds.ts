import type { Run } from "../db/db.ts";
import { leaseAdvice } from "../model/lease-advice.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import { isUnresponsive } from "../model/liveness.ts";
import { enoughEnded } from "../model/slow.ts";
import { percentiles } from "../telemetry/histogram.ts";
import { depths } from "../sql/depth.ts";
import { knownKinds } from "../sql/kinds.ts";
import { recent, type Recent } from "../sql/series.ts";
import { watchWorkers } from "../sql/workers.ts";
import { depthBy, sumDepth, sumSeries, toRates } from "./figures.ts";
import type { KindView } from "./types.ts";

type Place = { readonly kind: string; readonly queue: string };

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** Every pair of kind and queue, by name. */
export async function kinds(db: Run): Promise<KindView[]> {
  const [depth, minute, day, known, workers] = await Promise.all([
    depths(db),
    recent(db, 10, minuteMs),
    recent(db, 3_600, dayMs),
    knownKinds(db),
    watchWorkers(db),
  ]);
  const byPlace = depthBy(depth, ({ kind, queue }) => ({ kind, queue }));
  const leases = new Map(known.map(({ name, leaseMs }) => [name, leaseMs]));
  const alive = workers
    .filter((worker) => !isUnresponsive(worker))
    .map((worker) => ({ kinds: worker.kinds, slots: new QueueMap(Object.entries(worker.pools)) }));
  const places = new Map<string, Place>();
  for (const { kind, queue } of [
    ...byPlace,
    ...day,
    ...known.map((one) => ({ kind: one.name, queue: one.queue })),
  ])
    places.set(JSON.stringify([kind, queue]), { kind, queue });
  return [...places.values()].sort(byName).map(({ kind, queue }) => {
    const here = (place: Place): boolean => place.kind === kind && place.queue === queue;
    const today = sumSeries(day.filter(here));
    const ended = today.run.reduce((sum, count) => sum + count, 0);
    const run = percentiles(today.run);
    return {
      kind,
      queue,
      depth: byPlace.find(here)?.depth ?? sumDepth([]),
      rates: toRates(sumSeries(minute.filter(here)), secondsOf(minute)),
      wait: percentiles(today.wait),
      run,
      attemptsPerSuccess: today.succeeded === 0 ? null : today.attemptsOfSucceeded / today.succeeded,
      workers: alive.filter((worker) => worker.kinds.includes(kind) && worker.slots.has(queue)).length,
      leaseAdvice: leaseAdvice(leases.get(kind) ?? null, ended < enoughEnded ? null : run.p99),
    };
  });
}

/** The period that the rows cover; the same for all. */
export function secondsOf(rows: readonly Recent[]): number {
  return rows[0]?.seconds ?? 60;
}

function byName(a: Place, b: Place): number {
  if (a.kind !== b.kind) return a.kind < b.kind ? -1 : 1;
  return a.queue < b.queue ? -1 : 1;
}
