import type { FlowPart, JobState } from "stint";
import { useMemo } from "react";
import type { Wire } from "../../api.ts";
import { GoTo } from "../../components/link.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { stateOrder, StateShape } from "../../components/state-mark.tsx";
import { number } from "../../format.ts";
import { layOut, mostLayers, type Box } from "./graph-layout.ts";

type Part = Wire<FlowPart>;

const size = { width: 196, height: 52, gapX: 56, gapY: 14 };
const left = ({ layer }: Box<Part>): number => layer * (size.width + size.gapX);
const top = ({ row }: Box<Part>): number => row * (size.height + size.gapY);

/** Parts by layers, with lines from each to those that wait for it. The list below has every part in words. */
export function FlowGraph({ parts }: { parts: readonly Part[] }) {
  const graph = useMemo(() => layOut(parts), [parts]);
  const width = graph.layers * (size.width + size.gapX) - size.gapX;
  const height = graph.rows * (size.height + size.gapY) - size.gapY;
  return (
    <>
      <div className="flow-graph card" role="group" aria-label="Graph of the flow" tabIndex={0}>
        <div className="flow-plane" style={{ width, height }}>
          <svg width={width} height={height} aria-hidden="true">
            {graph.edges.map(({ from, to, undoes }) => {
              const [x1, y1] = [left(from) + size.width, top(from) + size.height / 2];
              const [x2, y2] = [left(to), top(to) + size.height / 2];
              const middle = (x1 + x2) / 2;
              return (
                <path
                  key={`${from.id} ${to.id}`}
                  data-undoes={undoes || undefined}
                  d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`}
                />
              );
            })}
          </svg>
          {graph.boxes.map((box) => (
            <div
              key={box.id}
              className="flow-box"
              data-state={worst(box.parts)}
              style={{ left: left(box), top: top(box), width: size.width, height: size.height }}
            >
              <BoxText box={box} />
            </div>
          ))}
        </div>
      </div>
      {graph.left === 0 ? null : (
        <p className="muted">
          The last {mostLayers} layers are drawn. {number(graph.left)} earlier parts are in the list below.
        </p>
      )}
    </>
  );
}

function BoxText({ box: { parts } }: { box: Box<Part> }) {
  const [only] = parts;
  if (only === undefined) return null;
  const counts = stateOrder.flatMap((state) => {
    const count = parts.filter((part) => part.state === state).length;
    return count === 0 ? [] : [`${number(count)} ${state}`];
  });
  if (parts.length > 1) {
    return (
      <>
        <strong title={only.kind}>
          {number(parts.length)} × {only.kind}
        </strong>
        <span className="second" title={counts.join(", ")}>
          {counts.join(", ")}
        </span>
      </>
    );
  }
  return (
    <>
      <GoTo path="/jobs/$id" params={{ id: only.id }} title={partName(only)}>
        <PlainText>{partName(only)}</PlainText>
      </GoTo>
      <span className="second">
        <StateShape state={only.state} /> {stateText(only)}
        {only.undoes === null ? "" : ", undoes"}
      </span>
    </>
  );
}

export function partName({ name, kind }: Pick<Part, "name" | "kind">): string {
  return name === null || name === kind ? kind : `${name} (${kind})`;
}

export function stateText({ state, parkReason }: Part): string {
  return state === "parked" && parkReason !== null ? parkReason : state;
}

/** What a person should see first. */
const urgency: readonly JobState[] = [
  "dead",
  "cancelled",
  "running",
  "retrying",
  "ready",
  "scheduled",
  "parked",
];

function worst(parts: readonly Part[]): JobState {
  return urgency.find((state) => parts.some((part) => part.state === state)) ?? "succeeded";
}
