import { command } from "../../model/command.ts";
import { formatMs, plural } from "../../model/figures.ts";
import { unserved, type Unserved } from "../../sql/kinds.ts";
import type { Check } from "../check.ts";
import { error, type Seen } from "../finding.ts";

/** Jobs younger than this may only be waiting for a worker that starts. */
const waitedMs = 10_000;

/** Waiting jobs that no worker serves. */
export const kinds: Check = {
  name: "kinds",
  needsSchema: true,
  look: async ({ session, schema }) => kindsRule(await unserved(session, waitedMs), Date.now(), schema),
};

export function kindsRule(found: readonly Unserved[], now: number, schema: string): Seen {
  const findings = found.map(({ kind, queue, oldest }) =>
    error(
      "Jobs wait, and no worker serves their kind",
      `kind ${kind} in queue ${queue}, the oldest for ${formatMs(Math.max(0, now - oldest.getTime()))}`,
      `Start a worker with a handler for ${kind} and a pool with queue ${queue}; or end them: ` +
        `\`${command(schema, "jobs", "cancel", "--state", "ready", "--kind", kind, "--queue", queue, "--reason", "…")}\`.`,
    ),
  );
  return {
    seen: found.length === 0 ? "none waits unserved" : `${plural(found.length, "kind")} unserved`,
    findings,
  };
}
