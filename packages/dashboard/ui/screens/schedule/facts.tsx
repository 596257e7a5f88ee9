import type { ReactNode } from "react";
import type { ScheduleResponse } from "../../api.ts";
import { Age, exact } from "../../components/age.tsx";
import { GoTo } from "../../components/link.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { number, roundDuration } from "../../format.ts";

const catchUps = {
  last: "the newest missed slot",
  all: "every missed slot",
  none: "no missed slot",
} as const;
const overlaps = {
  allow: "run beside the job before",
  skip: "skip the slot",
  queue: "wait for the job before",
} as const;

export function ScheduleFacts({ schedule }: { schedule: ScheduleResponse["schedule"] }) {
  const { owner, kind, queue, tenant, lastSlot, lastJobId, startAt, endAt, jitterMs, quietHours } = schedule;
  const facts: readonly (readonly [label: string, value: ReactNode])[] = [
    ["Owner", owner === null ? "run time" : <PlainText>{owner}</PlainText>],
    [
      "Kind",
      <GoTo key="kind" path="/jobs" search={{ kind }}>
        {kind}
      </GoTo>,
    ],
    [
      "Queue",
      <GoTo key="queue" path="/queues/$queue" params={{ queue }}>
        {queue}
      </GoTo>,
    ],
    ["Tenant", tenant === null ? null : <PlainText>{tenant}</PlainText>],
    [
      "Slots",
      `${number(schedule.fired)} fired, ${number(schedule.missed)} missed, ${number(schedule.skipped)} skipped`,
    ],
    ["Last slot", lastSlot === null ? "none yet" : <Age key="last" at={lastSlot} />],
    [
      "Last job",
      lastJobId === null ? null : (
        <GoTo key="job" path="/jobs/$id" params={{ id: lastJobId }} className="mono">
          {lastJobId}
        </GoTo>
      ),
    ],
    ["Catch up", catchUps[schedule.catchUp]],
    ["Overlap", overlaps[schedule.overlap]],
    ["Jitter", jitterMs === 0 ? null : `up to ${roundDuration(jitterMs)}`],
    ["Starts", startAt === null ? null : exact(startAt)],
    ["Ends", endAt === null ? null : exact(endAt)],
    ["Quiet hours", quietHours === null ? null : `${quietHours.from} to ${quietHours.to} ${quietHours.zone}`],
    [
      "Changed",
      <>
        <Age at={schedule.updatedAt} /> by <PlainText>{schedule.updatedBy}</PlainText>
      </>,
    ],
  ];
  return (
    <dl className="facts">
      {facts.map(([label, value]) =>
        value === null ? null : (
          <div className="fact" key={label}>
            <dt>{label}</dt>
            <dd className="break">{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
