import { query } from "./database.ts";
import type { Fresh } from "./fresh.ts";

/** Returns when so much time has passed on the clock of the database, which decides what has run out. */
export async function passTime(fresh: Pick<Fresh, "url">, ms: number): Promise<void> {
  await query("select pg_sleep($1)", [ms / 1_000], fresh.url);
}
