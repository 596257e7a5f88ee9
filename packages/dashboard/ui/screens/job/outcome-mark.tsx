import type { ReactNode } from "react";
import type { Lane } from "./lanes.ts";

type Outcome = Lane["outcome"];

/** A shape per outcome of an attempt. 12 by 12 units. */
const shapes: Record<Outcome, ReactNode> = {
  succeeded: <path d="M2 6.5l2.7 2.7L10 3.2" />,
  failed: <path d="M2.8 2.8l6.4 6.4M9.2 2.8l-6.4 6.4" />,
  "timed-out": (
    <>
      <circle cx="6" cy="6" r="4.3" />
      <path d="M6 3.5V6l1.8 1.2" />
    </>
  ),
  crashed: <path d="M6.8 1L3 6.8h3L5.2 11 9 5.2H6z" />,
  released: <path d="M10 6H2.5M5 3L2 6l3 3" />,
  snoozed: <path d="M3 3h6L3 9h6" />,
  parked: <path d="M4 2.5v7M8 2.5v7" />,
  cancelled: (
    <>
      <circle cx="6" cy="6" r="4.3" />
      <path d="M3 9l6-6" />
    </>
  ),
  running: <path d="M3.5 2.2v7.6L10 6z" />,
  waiting: <circle cx="6" cy="6" r="3.8" />,
};

const tones: Record<Outcome, "ok" | "late" | "soon" | "plain" | "running"> = {
  succeeded: "ok",
  failed: "late",
  "timed-out": "late",
  crashed: "late",
  released: "plain",
  snoozed: "plain",
  parked: "plain",
  cancelled: "plain",
  running: "running",
  waiting: "plain",
};

export function toneOf(outcome: Outcome): string {
  return tones[outcome];
}

/** For use inside another SVG, at a position in it. */
export function OutcomeShape({ outcome, x, y }: { outcome: Outcome; x: number; y: number }) {
  return (
    <g className="outcome-shape" data-tone={tones[outcome]} transform={`translate(${x} ${y})`}>
      {shapes[outcome]}
    </g>
  );
}
