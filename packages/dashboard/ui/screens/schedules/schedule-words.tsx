/** The words and marks of schedules, which the list and the page of one share. */
import type { ScheduleState } from "stint";
import type { ScheduleRow } from "stint/inspect";
import type { Wire } from "../../api.ts";
import { StateMark } from "../../components/state-mark.tsx";
import { duration } from "../../format.ts";

export type Row = Wire<ScheduleRow>;

const looks = { active: "scheduled", paused: "parked", ended: "succeeded", broken: "dead" } as const;

export function ScheduleMark({ state }: { state: ScheduleState }) {
  return <StateMark state={looks[state]} word={state} />;
}

export function ruleText({ cron, everyMs }: Pick<Row, "cron" | "everyMs">): string {
  return cron ?? `every ${duration(everyMs)}`;
}

export const ranges = ["1h", "24h", "7d", "30d"] as const;
export type Range = (typeof ranges)[number];

export const rangeMs: Readonly<Record<Range, number>> = {
  "1h": 3_600_000,
  "24h": 86_400_000,
  "7d": 7 * 86_400_000,
  "30d": 30 * 86_400_000,
};

/** Names may contain a slash, so the name is a parameter. */
export function scheduleScreen(name: string) {
  return { path: "/schedules/show", search: { name } };
}
