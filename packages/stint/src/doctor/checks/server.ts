import { serverFacts, type ServerFacts } from "../../sql/doctor/server.ts";
import type { Check } from "../check.ts";
import { error, note, type Finding, type Seen } from "../finding.ts";

const oldest = 140_000;
const newestTried = 18;

/** Which server it is, and whether Stint can use it. */
export const server: Check = {
  name: "server",
  needsSchema: false,
  look: async ({ session }) => serverRule(await serverFacts(session)),
};

export function serverRule(facts: ServerFacts): Seen {
  const findings: Finding[] = [];
  const major = Math.floor(facts.version / 10_000);
  if (facts.version < oldest)
    findings.push(
      error(
        "Postgres is too old",
        `version ${facts.versionText}`,
        "Upgrade the server to Postgres 14 or newer.",
      ),
    );
  if (major > newestTried)
    findings.push(
      note(
        "Postgres is newer than the versions this release was tested on",
        `version ${facts.versionText}; tried are 14 to ${newestTried}`,
        "Upgrade the stint package when there is a newer one.",
      ),
    );
  if (facts.standby)
    findings.push(
      error(
        "This is a standby",
        "it is in recovery and takes no writes",
        "Name the primary in DATABASE_URL.",
      ),
    );
  else if (facts.readOnly)
    findings.push(
      error(
        "Transactions are read-only by default",
        "default_transaction_read_only is on for this role, database or server",
        "Find where with: select * from pg_db_role_setting; then reset default_transaction_read_only there.",
      ),
    );
  if (!facts.seesAll)
    findings.push(
      note(
        "Sessions of other roles are only partly visible",
        "this role is not a member of pg_read_all_stats, so who pins the xmin horizon or holds a lock may be missing below",
        "As a superuser: grant pg_monitor to the role that runs the doctor.",
      ),
    );
  return { seen: `Postgres ${facts.versionText}`, findings };
}
