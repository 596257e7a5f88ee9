import { countableBytes, wrongTallies, type WrongTally } from "../../sql/doctor/tallies.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

/** More is not counted: the doctor must not cost what the tallies save. */
const mostBytes = 64 * 2 ** 20;

/** Whether the tallies say what the tables hold. */
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
      "A tally is not what the tables hold, so depths are shown wrong",
      `queue ${queue}, kind ${kind}, priority ${priority}: tallied ${tallied}; there are ${counted}`,
      `Rows were changed by hand. Count anew: select "${schema}".recount();`,
    ),
  );
  return {
    seen: wrong.length === 0 ? "they say what the tables hold" : `${wrong.length} are wrong`,
    findings,
  };
}
