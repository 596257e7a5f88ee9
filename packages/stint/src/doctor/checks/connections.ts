import { connectionFacts, type ConnectionFacts } from "../../sql/doctor/server.ts";
import { workerFacts } from "../../sql/doctor/workers.ts";
import type { Check } from "../check.ts";
import { error, warning, type Finding, type Seen } from "../finding.ts";

/** What a process with a worker opens by default: its own, one that listens, one for its leases, and those for handlers. */
const perProcess = 3;

/** Whether there are connections left. */
export const connections: Check = {
  name: "connections",
  needsSchema: false,
  look: async ({ session }) => {
    // Before the schema is installed there is none to ask, and no worker either.
    const workers = await workerFacts(session).catch(() => []);
    const processes = new Set(
      workers.filter((one) => !one.unresponsive).map((one) => `${one.host} ${one.pid}`),
    ).size;
    return connectionsRule(await connectionFacts(session, processes));
  },
};

export function connectionsRule(facts: ConnectionFacts): Seen {
  const budgets = [
    {
      of: "the server",
      most: facts.most - facts.reserved,
      used: facts.used,
      more: "As a superuser: alter system set max_connections = <more>; and restart the server.",
    },
    {
      of: "this role",
      most: facts.roleMost,
      used: facts.roleUsed,
      more: "As its owner: alter role <name> connection limit <more>;",
    },
    {
      of: "this database",
      most: facts.databaseMost,
      used: facts.databaseUsed,
      more: "As its owner: alter database <name> connection limit <more>;",
    },
  ];
  const findings = budgets.flatMap(({ of, most, used, more }): Finding[] => {
    if (most === null || used < most * 0.8) return [];
    const level = used >= most * 0.95 ? error : warning;
    const fix = `Release them earlier, use a pooler, or allow more. ${more}`;
    return [level(`The connections of ${of} are nearly used up`, `${used} of ${most} are open`, fix)];
  });
  const room = Math.floor(Math.max(0, facts.most - facts.reserved - facts.used) / perProcess);
  const seen =
    `${facts.used} of ${facts.most - facts.reserved} open, ${facts.ours} of them Stint's; ` +
    `processes with workers: ${facts.processes}, room for about ${room} more`;
  return { seen, findings };
}
