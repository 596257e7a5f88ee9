import { command } from "../../model/command.ts";
import { plural } from "../../model/figures.ts";
import { flowProblems, mostProblems, type FlowProblem, type FlowProblems } from "../../sql/doctor/flows.ts";
import type { Check } from "../check.ts";
import { error, warning, type Finding, type Seen } from "../finding.ts";

/** Whether jobs of flows wait for something that does not happen by itself. */
export const flows: Check = {
  name: "flows",
  needsSchema: true,
  look: async ({ session, schema }) => flowsRule(await flowProblems(session), schema),
};

export function flowsRule(found: FlowProblems, schema: string): Seen {
  const { live, stuck, open, refused, undone } = found;
  const why = (one: FlowProblem): string => `\`${command(schema, "jobs", "why", one.id)}\``;
  const findings: Finding[] = [];
  const add = (
    make: typeof error,
    title: string,
    all: readonly FlowProblem[],
    fix: (one: FlowProblem) => string,
  ): void => {
    const [first] = all;
    if (first === undefined) return;
    const more =
      all.length === 1 ? "" : `, and ${all.length === mostProblems ? "at least " : ""}${all.length - 1} more`;
    findings.push(make(title, `${first.kind} ${first.id}: ${first.why}${more}`, fix(first)));
  };
  add(
    error,
    "A compensation is dead",
    undone,
    (one) => `Replay it, or undo its job by hand. ${why(one)} shows its error.`,
  );
  add(
    warning,
    "A job waits for one that failed",
    stuck,
    (one) => `Replay the failed job, or cancel the flow. ${why(one)} names it.`,
  );
  add(
    warning,
    "A continuation was refused",
    refused,
    (one) => `Correct its handler, and enqueue the missing job. See ${why(one)}.`,
  );
  add(
    warning,
    "A batch was not closed for a day",
    open,
    (one) => `Call \`stint.flows.close("${one.flow}")\` after its last job.`,
  );
  return { seen: `${plural(live, "flow")} with waiting jobs`, findings };
}
