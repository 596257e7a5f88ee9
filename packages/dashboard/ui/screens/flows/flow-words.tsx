/** The words and marks of flows, which the list and the page of one share. */
import type { FlowState, FlowSummary, JobState } from "stint";
import type { Wire } from "../../api.ts";
import { useNow } from "../../components/age.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import { duration } from "../../format.ts";

const looks: Readonly<Record<FlowState, JobState>> = {
  running: "running",
  stuck: "dead",
  succeeded: "succeeded",
  failed: "dead",
  stopped: "cancelled",
  compensating: "retrying",
  compensated: "cancelled",
};

export function FlowMark({ state }: { state: FlowState }) {
  return <StateMark state={looks[state]} word={state} />;
}

/** Chains and batches have no name of their own. */
export function flowName({ name, id }: Pick<Wire<FlowSummary>, "name" | "id">): string {
  return name ?? `chain ${id.slice(0, 13)}…`;
}

/** How long it has run, or how long it took. */
export function FlowAge({ flow: { createdAt, endedAt } }: { flow: Wire<FlowSummary> }) {
  const now = useNow();
  const ms = (endedAt === null ? now : Date.parse(endedAt)) - Date.parse(createdAt);
  return <span className="tabular">{endedAt === null ? duration(ms) : `took ${duration(ms)}`}</span>;
}
