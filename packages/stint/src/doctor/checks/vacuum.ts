import { formatMs, plural } from "../../model/figures.ts";
import { tableFacts, type TableFacts } from "../../sql/doctor/tables.ts";
import type { Check } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";
import { quoteName } from "../../db/quote.ts";

/** Fewer dead rows than this do not slow a query noticeably. */
const worthMention = { dead: 20_000, bytes: 64 * 2 ** 20 };

/** Whether vacuum removes dead rows, and how much space they left behind. */
export const vacuum: Check = {
  name: "vacuum",
  needsSchema: true,
  look: async ({ session, schema }) => vacuumRule(await tableFacts(session, schema), schema),
};

export function vacuumRule(tables: readonly TableFacts[], schema: string): Seen {
  const findings = tables.flatMap((facts) => [
    ...turnedOff(facts, schema),
    ...lag(facts, schema),
    ...bloat(facts, schema),
  ]);
  const dead = tables.reduce((sum, { dead: rows }) => sum + rows, 0);
  return { seen: `${plural(tables.length, "table")}, ${plural(dead, "dead row")}`, findings };
}

function turnedOff({ table, vacuumOff }: TableFacts, schema: string): Finding[] {
  if (!vacuumOff) return [];
  const fix = `Turn it on: alter table ${quoteName(schema, table)} reset (autovacuum_enabled);`;
  return [error("Autovacuum is off for a table, so dead rows pile up", `table ${table}`, fix)];
}

function lag(facts: TableFacts, schema: string): Finding[] {
  const { table, dead, threshold, sinceVacuumMs, vacuuming, vacuumOff } = facts;
  if (vacuumOff || dead < Math.max(worthMention.dead, threshold * 5)) return [];
  const last = sinceVacuumMs === null ? "never vacuumed" : `vacuumed ${formatMs(sinceVacuumMs)} ago`;
  return [
    warning(
      vacuuming ? "Vacuum is running and far behind" : "Vacuum is far behind",
      `table ${table} has ${plural(dead, "dead row")}, ${last}`,
      'If the check "horizon" names a session, end it first. ' +
        `Then: vacuum (analyze) ${quoteName(schema, table)}; and if it happens again, ` +
        "as a superuser: alter system set autovacuum_naptime = '15s'; and select pg_reload_conf();",
    ),
  ];
}

function bloat({ table, bytes, liveBytes, indexBytes }: TableFacts, schema: string): Finding[] {
  if (liveBytes === null || bytes + indexBytes < worthMention.bytes) return [];
  const times = bytes / Math.max(liveBytes, 2 * 2 ** 20);
  if (times < 10) return [];
  return [
    note(
      "A table is much larger than its live rows need",
      `table ${table} takes ${megabytes(bytes)} for about ${megabytes(liveBytes)}, its indexes ${megabytes(indexBytes)}`,
      "Normal after a backlog: new rows reuse the space. To return it to the system in a quiet hour: " +
        `vacuum full ${quoteName(schema, table)}; (it locks the table), or pg_repack.`,
    ),
  ];
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20)} MB`;
}
