import { countableBytes, wrongTallies, type WrongTally } from "../../sql/doctor/tallies.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

/** Counting more rows would be as expensive as the counts that the tallies avoid. */
const mostBytes = 64 * 2 ** 20;

/** Whether the tallies match the tables. */
export const tallies: Check = {
  name: "tallies",
  needsSchema: true,
  look: async ({ session, schema }) => {
    const bytes = await countableBytes(session);
    if (bytes > mostBytes)
      return {
        seen: `not compared: ${Math.round(bytes / 2 ** 20)} MB of jobs are too many to count`,
        findings: [],
      };
    return talliesRule(await wrongTallies(session), schema);
  },
};

export function talliesRule(wrong: readonly WrongTally[], schema: string): Seen {
  const findings = wrong.map(({ queue, kind, priority, tallied, counted }) =>
    warning(
      "A tally does not match its table, so depths are shown wrong",
      `queue ${queue}, kind ${kind}, priority ${priority}: tallied ${tallied}; there are ${counted}`,
      `Rows were changed by hand. Recount: select "${schema}".recount();`,
    ),
  );
  return {
    seen: wrong.length === 0 ? "they match the tables" : `${wrong.length} are wrong`,
    findings,
  };
}
