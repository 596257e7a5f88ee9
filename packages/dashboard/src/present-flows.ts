/** Flows as they may leave the server. */
import type { FlowSummary, FlowView } from "stint";
import type { FlowRows } from "stint/inspect";
import type { Redactor } from "./redact.ts";
import { hiddenMark } from "./secrets.ts";

/**
 * A reason may quote what is redacted in the payload of its job. A flow has up to a thousand of them, too many payloads to read, so all
 * reasons are hidden. The page of each job shows its reason, redacted.
 */
function hidden(text: string | null, redactor: Redactor): string | null {
  return text === null || !redactor.hides ? text : hiddenMark;
}

function summaryOf<Flow extends FlowSummary>(flow: Flow, redactor: Redactor): Flow {
  return { ...flow, reason: hidden(flow.reason, redactor) };
}

export function presentFlows({ flows, next }: FlowRows, redactor: Redactor): FlowRows {
  return { flows: flows.map((flow) => summaryOf(flow, redactor)), next };
}

export function presentFlow(flow: FlowView, redactor: Redactor): FlowView {
  if (!redactor.hides) return flow;
  const jobs = flow.jobs.map((part) =>
    Object.assign({}, part, {
      reason: hidden(part.reason, redactor),
      refused: hidden(part.refused, redactor),
    }),
  );
  return { ...summaryOf(flow, redactor), jobs };
}
