import { useEffect, useRef, useState } from "react";
import { exact, useNow } from "../../components/age.tsx";
import { duration, plural } from "../../format.ts";
import type { JobResponse } from "../../api.ts";
import { axisOf, lanesOf, ticksOf, type Lane } from "./lanes.ts";
import { OutcomeShape, toneOf } from "./outcome-mark.tsx";

const laneHeight = 24;
const bar = 12;
const foot = 24;
/** The minimum visible width. */
const leastWidth = 3;

/** Every attempt on one time axis: a thin line while it waits, a bar while it runs, a mark for how it ended. */
export function AttemptChart({ response }: { response: JobResponse }) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const now = useNow();
  const lanes = lanesOf(response);
  const axis = axisOf(lanes, now);
  const { from, to, cuts } = axis;

  const narrow = width < 560;
  const left = 26;
  const right = narrow ? 86 : 176;
  const room = Math.max(40, width - left - right);
  const place = (at: number): number => left + axis.share(at) * room;
  const height = lanes.length * laneHeight + foot;
  const ticks = cuts.length > 0 ? [] : ticksOf(to - from, Math.max(2, Math.floor(room / 110)));

  return (
    <div ref={frame} className="attempt-chart">
      {width === 0 ? null : (
        <svg width={width} height={height} role="img" aria-label={inWords(lanes, now)}>
          {ticks.map((tick) => (
            <g key={tick} className="chart-tick">
              <line x1={place(from + tick)} x2={place(from + tick)} y1={0} y2={height - foot} />
              <text x={place(from + tick)} y={height - 7} textAnchor="middle">
                +{duration(tick)}
              </text>
            </g>
          ))}
          {cuts.map((cut) => (
            <CutShape
              key={cut.from}
              from={place(cut.from)}
              to={place(cut.to)}
              height={height}
              label={duration(cut.to - cut.from)}
            />
          ))}
          {cuts.length > 0 ? null : (
            <text className="chart-zero" x={left} y={height - 7} textAnchor="start">
              {narrow ? "0" : "enqueued"}
            </text>
          )}
          {response.audit
            .map(({ at, action }) => ({ at: Date.parse(at), action }))
            .filter(({ at }) => at >= from && at <= to)
            .map(({ at, action }) => (
              <line
                key={`${at} ${action}`}
                className="chart-action"
                x1={place(at)}
                x2={place(at)}
                y1={0}
                y2={height - foot}
              >
                <title>{`${action} at ${exact(new Date(at).toISOString())}`}</title>
              </line>
            ))}
          {lanes.map((lane, index) => (
            <LaneShape
              key={lane.epoch ?? "waiting"}
              lane={lane}
              now={now}
              y={index * laneHeight + laneHeight / 2}
              place={place}
              labelAt={left + room + 12}
              narrow={narrow}
            />
          ))}
        </svg>
      )}
      {cuts.length > 0 ? (
        <p className="chart-note muted">Long waits are drawn shorter than they were.</p>
      ) : null}
    </div>
  );
}

/** A shortened wait: a break across all lanes, with its real duration. */
function CutShape({ from, to, height, label }: { from: number; to: number; height: number; label: string }) {
  const middle = (from + to) / 2;
  return (
    <g className="chart-cut">
      <rect x={from} y={0} width={Math.max(0, to - from)} height={height - foot} />
      {to - from < 52 ? null : (
        <text x={middle} y={height - 7} textAnchor="middle">
          {label}
        </text>
      )}
    </g>
  );
}

function LaneShape({
  lane,
  now,
  y,
  place,
  labelAt,
  narrow,
}: {
  lane: Lane;
  now: number;
  y: number;
  place: (at: number) => number;
  labelAt: number;
  narrow: boolean;
}) {
  const { start, outcome } = lane;
  const end = lane.end ?? Math.max(now, start ?? 0);
  const runs = place(start ?? end);
  const wide = start === null ? 0 : Math.max(leastWidth, place(end) - runs);
  const ran = start === null ? end - lane.waitFrom : end - start;
  const word = outcome === "waiting" ? "waits" : outcome;
  return (
    <g>
      <title>{laneInWords(lane, now)}</title>
      <text className="chart-number" x={0} y={y + 4}>
        {lane.attempt ?? ""}
      </text>
      <line className="chart-wait" x1={place(lane.waitFrom)} x2={runs} y1={y} y2={y} />
      {start === null ? null : (
        <rect
          className="chart-run"
          data-tone={toneOf(outcome)}
          x={runs}
          y={y - bar / 2}
          width={wide}
          height={bar}
          rx={2}
        />
      )}
      <OutcomeShape outcome={outcome} x={labelAt} y={y - 6} />
      <text className="chart-label" x={labelAt + 18} y={y + 4}>
        {narrow ? duration(ran) : `${word} · ${duration(ran)}`}
      </text>
    </g>
  );
}

function laneInWords(lane: Lane, now: number): string {
  const end = lane.end ?? now;
  const missing =
    lane.missing > 0
      ? `${plural(lane.missing, "claim")} before it not shown: released before the start, or no longer kept. `
      : "";
  if (lane.start === null) return `${missing}waits since ${duration(end - lane.waitFrom)}`;
  const on = lane.worker === null ? "" : ` on ${lane.worker}`;
  const counted = lane.attempt === null ? "" : `, attempt ${lane.attempt} of the job`;
  const waited = duration(lane.start - lane.waitFrom);
  return `${missing}attempt of epoch ${lane.epoch}${counted}: waited ${waited}, ran ${duration(end - lane.start)}${on}, ${lane.outcome}`;
}

function inWords(lanes: readonly Lane[], now: number): string {
  return `Attempts: ${lanes.map((lane) => laneInWords(lane, now)).join("; ")}`;
}

/** The width of the element. 0 until measured. */
function useWidth(place: React.RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [place]);
  return width;
}
