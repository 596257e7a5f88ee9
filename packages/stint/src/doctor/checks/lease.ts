import { plural } from "../../model/figures.ts";
import type { KindView } from "../../inspect/types.ts";
import type { Check } from "../check.ts";
import { warning, type Seen } from "../finding.ts";

/** Whether leases fit the run times of their kinds. */
export const lease: Check = {
  name: "lease",
  needsSchema: true,
  look: async ({ kinds }) => leaseRule(await kinds()),
};

export function leaseRule(found: readonly Pick<KindView, "kind" | "run" | "leaseAdvice">[]): Seen {
  const findings = found.flatMap(({ kind, leaseAdvice }) =>
    leaseAdvice === null
      ? []
      : [warning("A lease does not fit the run time of its kind", `kind ${kind}`, leaseAdvice)],
  );
  return { seen: `${plural(found.length, "kind")} measured`, findings };
}
