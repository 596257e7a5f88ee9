import type { FlowPart, FlowView } from "stint";
import { useState } from "react";
import { api, ApiError, type Wire } from "../../api.ts";
import { ActionDialog } from "../../components/action-dialog.tsx";
import { Age } from "../../components/age.tsx";
import { Button } from "../../components/button.tsx";
import { CopyButton } from "../../components/copy-button.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { GoTo } from "../../components/link.tsx";
import { Banner, Failed, Page, Section, Skeleton } from "../../components/page.tsx";
import { PlainText, reveal } from "../../components/plain-text.tsx";
import { Rows, type Column } from "../../components/rows.tsx";
import { StateMark } from "../../components/state-mark.tsx";
import { showToast } from "../../components/toast.tsx";
import { number, plural } from "../../format.ts";
import { useFlow, useRights } from "../../queries.ts";
import type { Screen } from "../../screen.ts";
import { usePathPart } from "../../url.ts";
import { FlowAge, FlowMark, flowName } from "../flows/flow-words.tsx";
import { FlowGraph, partName, stateText } from "./graph.tsx";
import "../flows/flows.css";

type Part = Wire<FlowPart>;

function Flow() {
  const id = usePathPart("id");
  const { data, error, refetch } = useFlow(id);
  const above = <GoTo path="/flows">Flows</GoTo>;
  if (data !== undefined) return <Shown key={data.id} flow={data} stale={error} />;
  if (error instanceof ApiError && (error.status === 404 || error.status === 400)) {
    return (
      <Page title="No such flow" above={above}>
        <EmptyState title="There is no flow with this id">
          <span className="mono break">
            <PlainText>{id}</PlainText>
          </span>
          <br />
          It may never have been committed, or it was pruned with its jobs.
        </EmptyState>
      </Page>
    );
  }
  return (
    <Page title="Flow" above={above}>
      {error === null ? <Skeleton lines={8} /> : <Failed error={error} again={() => void refetch()} />}
    </Page>
  );
}

function Shown({ flow, stale }: { flow: Wire<FlowView>; stale: Error | null }) {
  const { jobs, parts, reason, state } = flow;
  const { operate } = useRights();
  const [cancelling, setCancelling] = useState(false);
  const failed = jobs.filter((part) => part.state === "dead" || part.refused !== null);
  const because = !operate
    ? "Your role is view only. Ask for the role operate."
    : flow.live === 0
      ? "All of its parts have ended."
      : null;
  return (
    <Page
      title={reveal(flowName(flow))}
      above={<GoTo path="/flows">Flows</GoTo>}
      note={
        <span className="job-note">
          <FlowMark state={state} />
          <FlowAge flow={flow} />
          <span>
            {number(flow.succeeded)} of {plural(parts, "part")} succeeded
          </span>
          <span className="job-id">
            <span className="mono">{flow.id}</span>
            <CopyButton text={flow.id} label="Copy the id" />
          </span>
        </span>
      }
      actions={
        <Button look="danger" because={because} onClick={() => setCancelling(true)}>
          Cancel …
        </Button>
      }
    >
      {stale === null ? null : <Failed error={stale} />}
      {reason === null ? null : (
        <Banner tone="soon" title="It was stopped">
          <PlainText>{reason}</PlainText>
        </Banner>
      )}
      {state === "stuck" || failed.length > 0 ? <Stuck flow={flow} failed={failed} /> : null}
      <Section
        title="Graph"
        aside={jobs.length < parts ? `The first ${number(jobs.length)} of ${number(parts)} parts` : undefined}
      >
        <FlowGraph parts={jobs} />
      </Section>
      <Section title="Parts">
        <Rows
          label="Parts"
          columns={columns(new Map(jobs.map((part) => [part.id, part])))}
          items={jobs}
          id={(part) => part.id}
          open={(part) => ({ path: "/jobs/$id", params: { id: part.id } })}
          filter={{ label: "Filter parts", text: (part) => `${partName(part)} ${stateText(part)}` }}
        />
      </Section>
      {cancelling ? (
        <ActionDialog
          action={{
            title: `Cancel ${reveal(flowName(flow))}`,
            verb: "Cancel the flow",
            means:
              "No part starts any more. Running parts are asked to stop. Compensations of parts that succeeded run.",
            danger: true,
            needsReason: true,
            confirms: true,
            act: async (why, confirm) => {
              const { cancelled } = await api.cancelFlow(flow.id, why, confirm);
              showToast(`${plural(cancelled, "part")} cancelled or asked to stop.`);
            },
          }}
          onClose={() => setCancelling(false)}
          onDone={() => setCancelling(false)}
        />
      ) : null}
    </Page>
  );
}

/** Named at most: the list below has the others. */
const mostNamed = 5;

function Stuck({ flow, failed }: { flow: Wire<FlowView>; failed: readonly Part[] }) {
  const title =
    flow.state === "stuck"
      ? "It is stuck: no part can continue by itself"
      : `${plural(failed.length, "part")} failed`;
  return (
    <Banner tone={flow.state === "stuck" ? "late" : "soon"} title={title}>
      {flow.blocked === 0 ? null : <p>{plural(flow.blocked, "part")} blocked.</p>}
      <ul className="flow-failed">
        {failed.slice(0, mostNamed).map((part) => (
          <li key={part.id}>
            <GoTo path="/jobs/$id" params={{ id: part.id }}>
              <PlainText>{partName(part)}</PlainText>
            </GoTo>{" "}
            {part.refused === null ? stateText(part) : "could not be continued"}
            {part.refused === null && part.reason === null ? null : (
              <>
                {": "}
                <PlainText>{part.refused ?? part.reason ?? ""}</PlainText>
              </>
            )}
          </li>
        ))}
      </ul>
      {failed.length > mostNamed ? <p>{number(failed.length - mostNamed)} more in the list below.</p> : null}
      {flow.state === "stuck" ? "Replay what is dead, or cancel the flow." : null}
    </Banner>
  );
}

const columns = (byId: ReadonlyMap<string, Part>): readonly Column<Part>[] => [
  {
    title: "Part",
    head: true,
    sort: partName,
    cell: (part) => (
      <GoTo path="/jobs/$id" params={{ id: part.id }} className="name" title={partName(part)}>
        <PlainText>{partName(part)}</PlainText>
      </GoTo>
    ),
  },
  {
    title: "Status",
    sort: stateText,
    cell: (part) => <StateMark state={part.state} word={stateText(part)} />,
  },
  {
    title: "After",
    wide: true,
    cell: ({ after, undoes }) => {
      const named = after
        .map((id) => byId.get(id))
        .flatMap((part) => (part === undefined ? [] : [partName(part)]));
      const undone = undoes === null ? undefined : byId.get(undoes);
      const shown = named.slice(0, 3).join(", ");
      const more = after.length - Math.min(3, named.length);
      return (
        <>
          <PlainText>{shown}</PlainText>
          {more > 0 ? (
            <span className="muted">
              {shown === "" ? "" : " and "}
              {plural(more, "other")}
            </span>
          ) : null}
          {undone === undefined ? null : <span className="muted"> undoes {partName(undone)}</span>}
        </>
      );
    },
  },
  {
    title: "Reason",
    wide: true,
    cell: ({ reason, refused, state }) => {
      const why = refused ?? (state === "succeeded" ? null : reason);
      return why === null ? null : <PlainText className="break">{why}</PlainText>;
    },
  },
  {
    title: "Ended",
    number: true,
    sort: ({ endedAt }) => endedAt,
    cell: ({ endedAt }) => (endedAt === null ? <span className="muted">–</span> : <Age at={endedAt} />),
  },
];

export const screen: Screen = { path: "/flows/$id", title: "Flow", component: Flow };
