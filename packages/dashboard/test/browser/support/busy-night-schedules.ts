/** The schedules of the busy night: one that missed and skipped slots, a dense one, one that is paused, one that is broken. */
import type { Slot } from "stint";
import type { ScheduleRows } from "stint/inspect";
import { fakeSchedule } from "../../support/fake.ts";

const minute = 60_000;
const hour = 60 * minute;

const ago = (ms: number): Date => new Date(Date.now() - ms);

function slot(agoMs: number, outcome: Slot["outcome"], slots = 1): Slot {
  const at = ago(agoMs);
  return { slot: at, outcome, slots, lastSlot: slots === 1 ? null : ago(agoMs - minute), jobId: null, at };
}

export function schedules(): ScheduleRows {
  const usual = { ...fakeSchedule, latest: [], coming: [] };
  const latest = [slot(2 * hour, "skipped"), slot(5 * hour, "missed", 4), slot(9 * hour, "fired")];
  const tonight = ago(-11 * hour);
  return {
    schedules: [
      {
        ...usual,
        name: "nightly-audit",
        latest,
        coming: [tonight],
        nextSlot: tonight,
        fired: 1_234,
        missed: 4,
        skipped: 1,
      },
      {
        ...usual,
        name: "poll/feed-eu",
        owner: null,
        cron: null,
        everyMs: 15 * minute,
        lastSlot: ago(15 * minute),
        latest: Array.from({ length: 20 }, (_, n) => slot((n + 1) * 15 * minute, "fired")),
        coming: Array.from({ length: 20 }, (_, n) => ago(-(n + 1) * 15 * minute)),
      },
      { ...usual, name: "send-digest", state: "paused", nextSlot: null, pausedAt: ago(hour) },
      {
        ...usual,
        name: "close-day",
        state: "broken",
        nextSlot: null,
        error: 'zone "Mars/Olympus" is unknown',
      },
    ],
    next: "send-digest",
  };
}
