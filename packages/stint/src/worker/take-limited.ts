import type { ClaimedJob } from "../model/job.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import type { AttemptDeps } from "./deps.ts";
import type { Begun } from "./places.ts";
import type { Pool } from "./pool.ts";

type Deps = Pick<AttemptDeps, "pools" | "places" | "pauses" | "releaser">;
type Hold = (jobs: readonly ClaimedJob[]) => void;

/**
 * Claimed jobs take their places and tokens; `hold` gets those that have them. The others are parked or released. Undefined: all have begun in the shares
 * of this worker. Never rejects.
 */
export function takeLimited(deps: Deps, jobs: readonly ClaimedJob[], hold: Hold): Promise<void> | undefined {
  const { places, pauses } = deps;
  const placed = jobs.filter(places.needsPlaces);
  const metered = placed.length === jobs.length ? [] : jobs.filter((job) => !places.needsPlaces(job));
  const begun = placed.length === 0 || places.beginInShares(placed, () => hold(pauses.admit(placed)));
  if (metered.length === 0) return begun === true ? undefined : takePlaces(deps, placed, hold, begun);
  return Promise.all([
    takeTokens(deps, metered, hold),
    begun === true || takePlaces(deps, placed, hold, begun),
  ]).then(() => undefined);
}

/** Jobs that need only tokens may be claimed ahead, while there are tokens for all of them. */
async function takeTokens(deps: Deps, jobs: readonly ClaimedJob[], hold: Hold): Promise<void> {
  const { pools, places, pauses } = deps;
  const taken = await places.takeTokens(jobs);
  if (taken === undefined) return await takePlaces(deps, jobs, hold, false);
  if (taken.length < jobs.length) for (const pool of pools.of(jobs)) pool.needsPlaces(monotonicMs());
  hold(pauses.admit(taken));
}

/** Jobs that need places of their own are never claimed ahead: one without a slot would hold a place that another worker could use. */
async function takePlaces(
  { pools, places, pauses, releaser }: Deps,
  jobs: readonly ClaimedJob[],
  hold: Hold,
  begun: Begun,
): Promise<void> {
  if (await begun) return;
  const room = new Map<Pool, number>();
  const fits = jobs.filter(({ queue }) => {
    const pool = pools.find(queue);
    if (pool === undefined) return false;
    pool.needsPlaces(monotonicMs());
    const left = room.get(pool) ?? pool.room;
    room.set(pool, left - 1);
    return left > 0;
  });
  if (fits.length < jobs.length) void releaser.release(jobs.filter((job) => !fits.includes(job)));
  if (fits.length > 0) hold(pauses.admit(await places.take(fits)));
}
