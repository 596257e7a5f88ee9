import type { Client } from "pg";
import type { Fresh } from "./fresh.ts";

/** Makes every claim wait after it has taken its rows and before its commit, until `release`. The wait is an advisory lock of `admin`. */
export async function holdClaims(fresh: Fresh, admin: Client): Promise<{ release(): Promise<void> }> {
  // Advisory locks belong to the whole database, which tests share.
  const lock = `hashtextextended('${fresh.schema}', 0)`;
  await fresh.sql(`create function stint.wait_here() returns trigger language plpgsql as $$
    begin
      perform pg_advisory_xact_lock_shared(${lock});
      return null;
    end $$`);
  await fresh.sql(`create trigger wait_here after update on stint.job for each row
    when (old.state = 'ready' and new.state = 'running') execute function stint.wait_here()`);
  await admin.query(`select pg_advisory_lock(${lock})`);
  return {
    async release() {
      await admin.query(`select pg_advisory_unlock(${lock})`);
    },
  };
}
