import { notificationsUsed } from "../../sql/doctor/server.ts";
import type { Check } from "../check.ts";
import { error, warning, type Seen } from "../finding.ts";

/** Whether notifications arrive: the server keeps each one until the slowest listener has read it. */
export const wakes: Check = {
  name: "wakes",
  needsSchema: false,
  look: async ({ session }) => wakesRule(await notificationsUsed(session)),
};

export function wakesRule(used: number): Seen {
  const seen = `${Math.round(used * 100)} % of the notification queue used`;
  if (used < 0.25) return { seen, findings: [] };
  return {
    seen,
    findings: [
      (used > 0.75 ? error : warning)(
        "The server's notification queue fills up; when it is full, every NOTIFY in any database fails",
        seen,
        "Some session listens and stays in a transaction. Find it: select pid, application_name, xact_start from pg_stat_activity " +
          "where state = 'idle in transaction' order by xact_start; and end it: select pg_terminate_backend(<pid>);",
      ),
    ],
  };
}
