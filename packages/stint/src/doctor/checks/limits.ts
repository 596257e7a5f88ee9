import { command } from "../../model/command.ts";
import { formatMs, plural } from "../../model/figures.ts";
import { blockedKeys, type BlockedKey } from "../../sql/doctor/limits.ts";
import type { Check } from "../check.ts";
import { warning, type Finding, type Seen } from "../finding.ts";

/** How long a job may wait for a place before its limit is reported. */
const longMs = 3_600_000;

/** Whether jobs wait for a place that does not become free. */
export const limits: Check = {
  name: "limits",
  needsSchema: true,
  look: async ({ session, schema }) => limitsRule(await blockedKeys(session, longMs), schema),
};

export function limitsRule(found: readonly BlockedKey[], schema: string): Seen {
  const findings: Finding[] = [];
  const more = (keys: readonly BlockedKey[]): string =>
    keys.length === 1 ? "" : `, and ${plural(keys.length - 1, "more key", "more keys")}`;
  const text = ({ key, waiting, sinceMs }: BlockedKey): string =>
    `${key}: ${plural(waiting, "job waits", "jobs wait")}, for ${formatMs(sinceMs)}`;
  const blocked = found.filter(({ dead }) => dead !== null);
  const full = found.filter(({ dead }) => dead === null);
  const [head] = blocked;
  if (head !== undefined && head.dead !== null)
    findings.push(
      warning(
        "A dead job blocks an ordered key",
        `${text(head)} behind job ${head.dead}${more(blocked)}`,
        `Replay it: \`${command(schema, "jobs", "replay", head.dead, "--reason", "…")}\`, or let the others pass it: \`${command(schema, "limits", "pass", head.key, "--reason", "…")}\`.`,
      ),
    );
  const [first] = full;
  if (first !== undefined)
    findings.push(
      warning(
        "A limit has been full for long",
        `${text(first)}${more(full)}`,
        `\`${command(schema, "limits", "keys")}\` shows its holders. Raise the limit, or look for a job that does not end.`,
      ),
    );
  return { seen: `${plural(found.length, "key")} whose jobs wait for long`, findings };
}
