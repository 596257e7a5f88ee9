import { Age } from "../../components/age.tsx";
import { GoTo } from "../../components/link.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { SlotTimeline } from "../../components/slot-timeline.tsx";
import type { Column } from "../../components/table.tsx";
import { number } from "../../format.ts";
import { ScheduleActions } from "./schedule-actions.tsx";
import { rangeMs, ruleText, ScheduleMark, scheduleScreen, type Range, type Row } from "./schedule-words.tsx";

const count = (value: number) =>
  value === 0 ? <span className="muted">0</span> : <span className="warn">{number(value)}</span>;

const byRange = new Map<Range, readonly Column<Row>[]>();

/** The same array for the same range: the table would otherwise build its columns at every rendering. */
export function columns(range: Range): readonly Column<Row>[] {
  const known = byRange.get(range) ?? make(range);
  byRange.set(range, known);
  return known;
}

const make = (range: Range): readonly Column<Row>[] => [
  {
    id: "name",
    header: "Schedule",
    card: "title",
    cell: ({ name, kind, error }) => (
      <div className="schedule-name">
        <GoTo {...scheduleScreen(name)} title={name}>
          {name}
        </GoTo>
        <span className="second" title={kind}>
          {kind}
        </span>
        {error === null ? null : (
          <span className="second bad">
            <PlainText whole>{error}</PlainText>
          </span>
        )}
      </div>
    ),
  },
  { id: "state", header: "State", card: "corner", cell: ({ state }) => <ScheduleMark state={state} /> },
  {
    id: "rule",
    header: "Rule",
    cell: (schedule) => (
      <div className="schedule-rule">
        <span className="mono">{ruleText(schedule)}</span>
        <span className="second">{schedule.zone}</span>
      </div>
    ),
  },
  {
    id: "timeline",
    header: `Now ± ${range}`,
    grow: true,
    card: "plain",
    cell: ({ latest, coming, state }) => (
      // The slots of a paused schedule do not fire.
      <SlotTimeline latest={latest} coming={state === "paused" ? [] : coming} rangeMs={rangeMs[range]} />
    ),
  },
  {
    id: "next",
    header: "Next",
    align: "end",
    cell: ({ nextSlot }) => (nextSlot === null ? <span className="muted">–</span> : <Age at={nextSlot} />),
  },
  {
    id: "last",
    header: "Last",
    align: "end",
    leaves: "next",
    cell: ({ lastSlot, lastJobId }) =>
      lastSlot === null ? (
        <span className="muted">–</span>
      ) : lastJobId === null ? (
        <Age at={lastSlot} />
      ) : (
        <GoTo path="/jobs/$id" params={{ id: lastJobId }}>
          <Age at={lastSlot} />
        </GoTo>
      ),
  },
  { id: "missed", header: "Missed", align: "end", cell: ({ missed }) => count(missed) },
  { id: "skipped", header: "Skipped", align: "end", leaves: "next", cell: ({ skipped }) => count(skipped) },
  {
    id: "owner",
    header: "Owner",
    leaves: "first",
    cell: ({ owner }) =>
      owner === null ? (
        <span className="muted">run time</span>
      ) : (
        <GoTo path="/schedules" search={{ owner }} className="schedule-owner">
          <PlainText whole>{owner}</PlainText>
        </GoTo>
      ),
  },
  {
    id: "actions",
    header: "Actions",
    align: "end",
    card: "plain",
    leaves: "first",
    cell: (schedule) => <ScheduleActions schedule={schedule} few />,
  },
];
