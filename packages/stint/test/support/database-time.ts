import { ServerClock } from "#stint/db/server-clock.js";
import { query } from "./database.ts";
import type { Fresh } from "./fresh.ts";
import { until } from "./until.ts";

/** Returns when this much time has passed on the database's clock, which decides whether a lease has expired. */
export async function passTime(fresh: Pick<Fresh, "url">, ms: number): Promise<void> {
  await query("select pg_sleep($1)", [ms / 1_000], fresh.url);
}

/** Waits until the job's current attempt is older than `ms` by the database's clock. Pass more than the lease to show its renewal. */
export async function untilRunningFor(fresh: Fresh, id: string, ms: number): Promise<void> {
  const old = `select from stint.job where id = $1 and claimed_at + $2 * interval '1 ms' < clock_timestamp()`;
  await until(async () => (await fresh.sql(old, [id, ms])).length === 1, {
    message: `the job has run for ${ms} ms`,
  });
}

/** An estimate of the database's clock that is wrong by this much. */
export function wrongClock(wrongByMs: number): ServerClock {
  return new ServerClock(undefined, Date.now() + wrongByMs);
}
