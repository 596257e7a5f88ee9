import type { JobState } from "stint";
import type { ReactNode } from "react";
import "./state-mark.css";

/** A shape per state, so that states are distinguishable without colour. 16 by 16 units. */
const shapes: Record<JobState, ReactNode> = {
  // A clock: not due yet.
  scheduled: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 5v3l2 1.5" />
    </>
  ),
  // An open ring: may run.
  ready: <circle cx="8" cy="8" r="5" />,
  // A filled triangle: runs.
  running: <path className="filled" d="M5 3.5v9l7.5-4.5z" />,
  // A circular arrow: waits for its retry.
  retrying: (
    <>
      <path d="M13 8a5 5 0 1 1-1.6-3.7" />
      <path d="M13.2 2.2v2.9h-2.9" />
    </>
  ),
  // Two bars: held back.
  parked: <path d="M5.5 4v8M10.5 4v8" />,
  succeeded: <path d="M3.5 8.5l3 3 6-7" />,
  // A filled square with a cross: not retried automatically.
  dead: (
    <>
      <rect className="filled" x="2.5" y="2.5" width="11" height="11" rx="2" />
      <path className="cut" d="M5.7 5.7l4.6 4.6M10.3 5.7l-4.6 4.6" />
    </>
  ),
  cancelled: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M4.2 11.8l7.6-7.6" />
    </>
  ),
};

/** The states in the order in which a job may pass through them. */
export const stateOrder = Object.keys(shapes) as JobState[];

export function isState(text: string): text is JobState {
  return Object.hasOwn(shapes, text);
}

/** The shape alone. The caller must show the state as text next to it. */
export function StateShape({ state }: { state: JobState }) {
  return (
    <svg
      className="state-shape"
      data-state={state}
      viewBox="0 0 16 16"
      width="14"
      height="14"
      aria-hidden="true"
    >
      {shapes[state]}
    </svg>
  );
}

/** A state by shape, word and colour. `word`: the state of something else that looks like this one. */
export function StateMark({ state, word = state }: { state: JobState; word?: string }) {
  return (
    <span className="state-mark" data-state={state}>
      <StateShape state={state} />
      {word}
    </span>
  );
}
