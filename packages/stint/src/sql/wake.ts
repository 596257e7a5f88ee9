import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

// No caller waits for a wake to reach the disk. With synchronous_commit on, it would hold the lock that all notifying commits of the server
// share for as long as the disk takes.
const sendWake = statement(
  "wake",
  `
  select
    pg_notify(stint.wake_channel(), case when jobs is null then hint else stint.ready_hint(substr(hint, ${"ready:".length + 1}), jobs) end),
    set_config('synchronous_commit', 'off', true)
  from unnest($1::text[], $2::bigint[]) as wakes (hint, jobs)`,
);

/**
 * Notify listening workers that there may be work. Only a hint: nothing depends on its arrival. `jobs` has the number of jobs for each hint
 * `ready:<queue>`, so that no more workers wake than are needed; without a number, every worker does.
 */
export async function wake(
  db: Run,
  hints: readonly string[],
  jobs: readonly (number | null)[] = [],
): Promise<void> {
  await db.run(sendWake, [hints, jobs]);
}
