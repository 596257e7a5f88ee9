import { plural } from "../../model/figures.ts";
import { historyFacts, restLimit, type HistoryFacts } from "../../sql/doctor/tables.ts";
import type { Check } from "../check.ts";
import { note, warning, type Finding, type Seen } from "../finding.ts";

/** Whether each coming day has its partition. */
export const history: Check = {
  name: "history",
  needsSchema: true,
  look: async ({ session, schema }) => historyRule(await historyFacts(session), schema),
};

export function historyRule({ daysAhead, rest }: HistoryFacts, schema: string): Seen {
  const findings: Finding[] = [];
  if (daysAhead < 2)
    findings.push(
      warning(
        "Partitions for the coming days are missing",
        daysAhead === 0 ? "today has none" : "today has one, tomorrow has none",
        `A running worker makes them. By hand: select "${schema}".make_partitions(7);`,
      ),
    );
  if (rest > 0)
    findings.push(
      note(
        "Finished jobs are in the default partition, because their day has none",
        `${rest >= restLimit ? `${restLimit} or more rows` : plural(rest, "row")} in table history_done_rest`,
        "They are pruned row by row after their retention, which costs more than dropping a day. Keep a worker running, " +
          "so that each day has its partition in time.",
      ),
    );
  return { seen: `partitions for ${plural(daysAhead, "day")} from today on`, findings };
}
