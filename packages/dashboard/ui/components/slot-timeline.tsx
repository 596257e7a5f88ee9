import type { Slot } from "stint";
import type { ReactNode } from "react";
import type { Wire } from "../api.ts";
import { plural } from "../format.ts";
import { exact, useNow } from "./age.tsx";
import "./slot-timeline.css";

type Outcome = Slot["outcome"];

/** A shape for each outcome, so that it is recognized without its colour. Drawn around 0, 0. */
const shapes: Readonly<Record<Outcome, ReactNode>> = {
  fired: <rect x="-1.5" y="-7" width="3" height="14" />,
  "run-now": <path d="M0-5 5 0 0 5-5 0z" />,
  missed: <circle r="4" />,
  skipped: <path d="M-5 4h10L0-5z" />,
  failed: <path d="M-4-4 4 4M4-4-4 4" />,
};

export const outcomeWords: Readonly<Record<Outcome, string>> = {
  fired: "fired",
  "run-now": "run now",
  missed: "missed",
  skipped: "skipped",
  failed: "failed",
};

/** The shape alone; the outcome stands beside it in words. */
export function OutcomeShape({ outcome }: { outcome: Outcome }) {
  return (
    <svg className="slot-shape" data-outcome={outcome} viewBox="-8 -8 16 16" aria-hidden="true">
      {shapes[outcome]}
    </svg>
  );
}

/** Fewer than this were not cut off by the server. */
const many = 20;

/**
 * The latest and the next slots of a schedule around now, within `rangeMs` to either side. A schedule with more slots than were sent has a
 * line where the others are.
 */
export function SlotTimeline({
  latest,
  coming,
  rangeMs,
  axis = false,
}: {
  latest: readonly Wire<Slot>[];
  coming: readonly string[];
  rangeMs: number;
  /** With the times of its ends below. */
  axis?: boolean;
}) {
  const now = useNow();
  const from = now - rangeMs;
  const to = now + rangeMs;
  const at = (ms: number): string => `${(((ms - from) / (to - from)) * 100).toFixed(3)}%`;
  const inside = (time: string): boolean => Date.parse(time) >= from && Date.parse(time) <= to;
  const past = latest.filter(({ slot }) => inside(slot));
  const next = coming.filter(inside);
  // All that were sent lie inside, so that there may be more beyond the last of them.
  const oldest = past.length === latest.length ? latest.at(-1) : undefined;
  const newest = next.length === coming.length ? coming.at(-1) : undefined;
  return (
    <div className="slot-timeline">
      <svg role="img" aria-label={spoken(past, next)} width="100%" height="24">
        <line className="slot-axis" x1="0" x2="100%" y1="12" y2="12" />
        {oldest === undefined || latest.length < many ? null : (
          <line className="slot-more" x1="0" x2={at(Date.parse(oldest.slot))} y1="12" y2="12" />
        )}
        {newest === undefined || coming.length < many ? null : (
          <line className="slot-more" x1={at(Date.parse(newest))} x2="100%" y1="12" y2="12" />
        )}
        <line className="slot-now" x1="50%" x2="50%" y1="0" y2="24" />
        {past.map(({ slot, outcome, slots }) => (
          <svg key={slot} x={at(Date.parse(slot))} y="12" overflow="visible" data-outcome={outcome}>
            <title>{`${outcomeWords[outcome]}${slots === 1 ? "" : ` (${plural(slots, "slot")})`}: ${exact(slot)}`}</title>
            {shapes[outcome]}
          </svg>
        ))}
        {next.map((slot) => (
          <svg key={slot} x={at(Date.parse(slot))} y="12" overflow="visible" data-outcome="next">
            <title>{`next: ${exact(slot)}`}</title>
            <path d="M0-5V5" />
          </svg>
        ))}
      </svg>
      {axis ? (
        <div className="slot-ends tabular" aria-hidden="true">
          <span>{exact(new Date(from).toISOString()).replace(/\.\d+/, "")}</span>
          <span>now</span>
          <span>{exact(new Date(to).toISOString()).replace(/\.\d+/, "")}</span>
        </div>
      ) : null}
    </div>
  );
}

function spoken(past: readonly Wire<Slot>[], next: readonly string[]): string {
  const counts = (Object.keys(shapes) as Outcome[]).flatMap((outcome) => {
    const count = past.filter((slot) => slot.outcome === outcome).reduce((sum, { slots }) => sum + slots, 0);
    return count === 0 ? [] : [`${count} ${outcomeWords[outcome]}`];
  });
  return [...counts, `${next.length} coming`].join(", ");
}

/** What the shapes mean. */
export function SlotLegend() {
  return (
    <ul className="slot-legend" aria-label="Shapes of the timeline">
      {(Object.keys(shapes) as Outcome[]).map((outcome) => (
        <li key={outcome}>
          <OutcomeShape outcome={outcome} /> {outcomeWords[outcome]}
        </li>
      ))}
      <li>
        <svg className="slot-shape" data-outcome="next" viewBox="-8 -8 16 16" aria-hidden="true">
          <path d="M0-5V5" />
        </svg>{" "}
        next
      </li>
    </ul>
  );
}
