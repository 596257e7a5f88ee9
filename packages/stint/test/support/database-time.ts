import { ServerClock } from "#stint/db/server-clock.js";
import { query } from "./database.ts";
import type { Fresh } from "./fresh.ts";
import { until } from "./until.ts";

/** Returns when this much time has passed on the database's clock, which decides whether a lease has expired. */
export async function passTime(fresh: Pick<Fresh, "url">, ms: number): Promise<void> {
  await query("select pg_sleep($1)", [ms / 1_000], fresh.url);
}

/** Waits until the lease of a running job was renewed this many times. */
export async function untilRenewed(fresh: Fresh, id: string, times: number): Promise<void> {
  const seen = new Set<string>();
  await until(
    async () => {
      const [row] = await fresh.sql<{ lease: string }>(
        `select lease_until::text as lease from stint.job where id = $1 and state = 'running'`,
        [id],
      );
      if (row !== undefined) seen.add(row.lease);
      return seen.size > times;
    },
    { message: `the lease was renewed ${times} times` },
  );
}

/** An estimate of the database's clock that is wrong by this much. */
export function wrongClock(wrongByMs: number): ServerClock {
  return new ServerClock(undefined, Date.now() + wrongByMs);
}
