import type { FlowNeighbour } from "stint/inspect";
import type { JobResponse } from "../../api.ts";
import { GoTo } from "../../components/link.tsx";
import { Section } from "../../components/page.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import { flowName } from "../flows/flow-words.tsx";
import "../flows/flows.css";

/** The flow that a job is part of, and the parts before and after it. */
export function JobFlow({ response: { flow = null } }: { response: JobResponse }) {
  if (flow === null) return null;
  return (
    <Section
      title="Flow"
      aside={
        <GoTo path="/flows/$id" params={{ id: flow.id }}>
          <PlainText>{flowName(flow)}</PlainText>
        </GoTo>
      }
    >
      <div className="card card-padded flow-places">
        <Neighbours title="Before it" none="It is a first part." parts={flow.before} />
        <Neighbours title="After it" none="No part waits for it." parts={flow.after} />
      </div>
    </Section>
  );
}

function Neighbours({
  title,
  none,
  parts,
}: {
  title: string;
  none: string;
  parts: readonly FlowNeighbour[];
}) {
  return (
    <div>
      <h3>{title}</h3>
      {parts.length === 0 ? (
        <p className="muted">{none}</p>
      ) : (
        <ul aria-label={title}>
          {parts.map(({ id, kind, name, state }) => (
            <li key={id}>
              <GoTo path="/jobs/$id" params={{ id }}>
                <PlainText>{name === null || name === kind ? kind : `${name} (${kind})`}</PlainText>
              </GoTo>
              {state === null ? null : <StateMark state={state} />}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
