import { brokenIndexes, type BrokenIndex } from "../../sql/doctor/schema.ts";
import type { Check } from "../check.ts";
import { error, type Seen } from "../finding.ts";
import { quoteName } from "../../db/quote.ts";

/** Invalid indexes. Missing ones are found by the check "drift". */
export const indexes: Check = {
  name: "indexes",
  needsSchema: true,
  look: async ({ session, schema }) => indexesRule(await brokenIndexes(session, schema), schema),
};

export function indexesRule(broken: readonly BrokenIndex[], schema: string): Seen {
  const findings = broken.map(({ index, table }) =>
    // What a failed build of a copy left behind is of no use; what carries our own name is needed.
    /_ccnew\d*$|_ccold\d*$/.test(index)
      ? error(
          "A failed rebuild left an invalid index behind",
          `index ${index} of table ${table}`,
          `Every write pays for it. Drop it: drop index concurrently ${quoteName(schema, index)};`,
        )
      : error(
          "An index is invalid: no query uses it",
          `index ${index} of table ${table}`,
          `Build it again: reindex index concurrently ${quoteName(schema, index)};`,
        ),
  );
  return { seen: broken.length === 0 ? "all valid" : `${broken.length} invalid`, findings };
}
