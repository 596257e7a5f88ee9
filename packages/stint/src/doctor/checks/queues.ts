import { command } from "../../model/command.ts";
import { plural } from "../../model/figures.ts";
import { closest } from "../../model/names.ts";
import { queueFacts, type QueueFacts } from "../../sql/doctor/queues.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

/** Settings whose name or pattern matches no queue, most often because it is misspelt. */
export const queues: Check = {
  name: "queues",
  needsSchema: true,
  look: async ({ session, schema }) => queuesRule(await queueFacts(session), schema),
};

export function queuesRule(found: readonly QueueFacts[], schema: string): Seen {
  const used = found.filter(({ declared }) => declared === null).map(({ name }) => name);
  const settings = found.filter(({ declared }) => declared !== null);
  // Before the first job and the first worker, no name can match.
  const unmatched = used.length === 0 ? [] : settings.filter(({ matches }) => !matches);
  const findings = unmatched.map(({ name, declared }) => {
    const meant = closest(name, used);
    return warning(
      "Queue settings match no queue: no job, kind or worker uses one of that name",
      `${name}${meant === undefined ? "" : `; did you mean ${meant}?`}`,
      declared === "code"
        ? `Correct the name in \`queues\` of createStint, or remove it there and run \`${forget(schema, name)}\`.`
        : `Set the right queue, and run \`${forget(schema, name)}\`.`,
    );
  });
  return { seen: `${plural(used.length, "queue")}, settings of ${settings.length}`, findings };
}

function forget(schema: string, name: string): string {
  return command(schema, "queues", "forget", name, "--reason", "…");
}
