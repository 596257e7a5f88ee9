import { quoteName } from "../../db/quote.ts";
import { supplies, type Supply } from "../../sql/doctor/tables.ts";
import type { Check } from "../check.ts";
import { error, warning, type Seen } from "../finding.ts";

/** Numbers that run out: of sequences, and of transactions. */
export const numbers: Check = {
  name: "numbers",
  needsSchema: true,
  look: async ({ session, schema }) => numbersRule(await supplies(session, schema), schema),
};

export function numbersRule(found: readonly Supply[], schema: string): Seen {
  const findings = found.flatMap(({ what, used, most }) => {
    const share = used / most;
    if (share < 0.5) return [];
    const sequence = /^sequence (.+)$/.exec(what)?.[1];
    const fix =
      sequence === undefined
        ? "Let vacuum reach every old row: end what the check horizon names, then run: vacuum (freeze); in this database."
        : `Restart it once its old numbers are gone: alter sequence ${quoteName(schema, sequence)} restart;`;
    return [
      (share > 0.8 ? error : warning)(
        "Numbers are running out",
        `${what}: ${Math.round(share * 100)} % are used`,
        fix,
      ),
    ];
  });
  const most = Math.max(0, ...found.map(({ used, most: limit }) => used / limit));
  return { seen: `${Math.round(most * 100)} % used at most`, findings };
}
