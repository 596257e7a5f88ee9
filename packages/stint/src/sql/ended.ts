import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

/** The channel on which workers report ended jobs to processes that wait for them. */
export const endedChannel = (schema: string): string => `stint-ended:${schema}`;

/** Ids in one message. Postgres allows 8,000 bytes. */
const perMessage = 200;

// As with wakes, no caller waits for it to reach the disk. A full notification queue would fail it.
const sendEnded = statement(
  "notify-ended",
  `
  select pg_notify($1, ids), set_config('synchronous_commit', 'off', true)
  from unnest($2::text[]) ids
  where pg_notification_queue_usage() < 0.5`,
);

/** Report ended jobs to waiting processes. Only a hint: they poll, too. */
export async function notifyEnded(db: Run, schema: string, ids: readonly string[]): Promise<void> {
  const messages: string[] = [];
  for (let from = 0; from < ids.length; from += perMessage)
    messages.push(ids.slice(from, from + perMessage).join(","));
  await db.run(sendEnded, [endedChannel(schema), messages]);
}
