import { formatMs } from "../../model/figures.ts";
import { heldLocks, type HeldLock } from "../../sql/doctor/sessions.ts";
import type { Check } from "../check.ts";
import { error, warning, type Seen } from "../finding.ts";

/** Locks that block access to Stint's tables. */
export const locks: Check = {
  name: "locks",
  needsSchema: true,
  look: async ({ session, schema, patienceMs }) => locksRule(await heldLocks(session, schema, patienceMs)),
};

export function locksRule(held: readonly HeldLock[]): Seen {
  const findings = held.map(({ pid, name, user, state, ageMs, table, mode, blocks }) => {
    const who = `pid ${pid}, application "${name}", user ${user ?? "unknown"}, ${state ?? "state unknown"}`;
    const since = ageMs === null ? "" : `, open for ${formatMs(ageMs)}`;
    const waits =
      blocks.length === 0
        ? ""
        : `; ${blocks.length === 1 ? "1 session waits" : `${blocks.length} sessions wait`} for it: pid ${blocks.join(", ")}`;
    return (blocks.length > 0 ? error : warning)(
      blocks.length > 0
        ? "A lock on Stint's tables blocks other sessions"
        : "A lock on Stint's tables would block other sessions",
      `${mode} on table ${table}: ${who}${since}${waits}`,
      `Let it finish, or end it: select pg_terminate_backend(${pid});`,
    );
  });
  return { seen: held.length === 0 ? "none is held for long" : `${held.length} held for long`, findings };
}
