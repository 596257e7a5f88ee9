import { describe, expect, test } from "vitest";
import { slotsOf } from "#stint/model/schedule.js";
import { query } from "../support/database.ts";

/*
 * The oracle watches the clock as Debian's cron does: minute by minute of real time, with the local time that Postgres shows. It shares
 * nothing with the code under test: neither croner, nor the zones of Node, nor a way to compute a moment from a local time.
 */

type Rule = {
  cron: string;
  fixed: boolean;
  matches: (hour: number, minute: number, weekday: number) => boolean;
};

const rules: readonly Rule[] = [
  { cron: "30 2 * * *", fixed: true, matches: (h, m) => h === 2 && m === 30 },
  { cron: "15 1 * * *", fixed: true, matches: (h, m) => h === 1 && m === 15 },
  { cron: "0 0 * * *", fixed: true, matches: (h, m) => h === 0 && m === 0 },
  { cron: "5 0,1,2,3 * * *", fixed: true, matches: (h, m) => h <= 3 && m === 5 },
  { cron: "0 0-5/2 * * *", fixed: true, matches: (h, m) => h <= 5 && h % 2 === 0 && m === 0 },
  {
    cron: "40-50/5 1,2 * * 0",
    fixed: true,
    matches: (h, m, d) => (h === 1 || h === 2) && m >= 40 && m <= 50 && m % 5 === 0 && d === 0,
  },
  { cron: "*/15 * * * *", fixed: false, matches: (_, m) => m % 15 === 0 },
  { cron: "0 * * * *", fixed: false, matches: (_, m) => m === 0 },
  { cron: "10 */2 * * *", fixed: false, matches: (h, m) => h % 2 === 0 && m === 10 },
  { cron: "*/20 1,2 * * *", fixed: false, matches: (h, m) => (h === 1 || h === 2) && m % 20 === 0 },
];

/** A day before and after a clock change, by the zone. */
const changes = [
  ["Europe/Berlin", "2026-03-29", "2026-10-25"],
  ["America/New_York", "2026-03-08", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-04-05", "2026-10-04"],
  ["Europe/Dublin", "2026-03-29", "2026-10-25"],
  ["Antarctica/Troll", "2026-03-29", "2026-10-25"],
  ["Africa/Casablanca", "2025-02-23", "2025-04-06"],
  ["America/Santiago", "2026-04-05", "2026-09-06"],
  // Abolished: its last changes, and the day on which the next one would have been.
  ["America/Sao_Paulo", "2018-11-04", "2019-02-17", "2019-11-03"],
  ["Asia/Tehran", "2022-03-22", "2022-09-21", "2023-03-22"],
  // A whole day was skipped.
  ["Pacific/Apia", "2011-12-30"],
  ["Asia/Kolkata", "2026-03-29"],
  ["UTC", "2026-03-29"],
].flatMap(([zone = "", ...days]) => days.map((day) => ({ zone, day })));

const minuteMs = 60_000;

/** Real minutes of four days, with the local time of each, in minutes since 1970. */
async function watch(zone: string, day: string): Promise<{ at: number; local: number }[]> {
  const rows = await query<{ at: number; local: number }>(
    `select (extract(epoch from t) / 60)::float8 as at, (extract(epoch from t at time zone $1) / 60)::float8 as local
     from generate_series($2::timestamptz - interval '36 hours', $2::timestamptz + interval '60 hours', interval '1 minute') t`,
    [zone, `${day}T00:00:00Z`],
  );
  return rows;
}

function expected(clock: readonly { at: number; local: number }[], { fixed, matches }: Rule): number[] {
  const isMatch = (local: number): boolean => {
    const time = new Date(local * minuteMs);
    return matches(time.getUTCHours(), time.getUTCMinutes(), time.getUTCDay());
  };
  const slots: number[] = [];
  let latest = (clock[0]?.local ?? 0) - 1;
  for (const { at, local } of clock) {
    if (!fixed) {
      if (isMatch(local)) slots.push(at * minuteMs);
      continue;
    }
    // Clocks were set forward over some minutes: those that match happen now. Clocks that were set back repeat what has happened.
    let due = false;
    for (let minute = latest + 1; minute <= local; minute++) due ||= isMatch(minute);
    if (due) slots.push(at * minuteMs);
    latest = Math.max(latest, local);
  }
  return slots;
}

describe.each(changes)("$zone around $day", ({ zone, day }) => {
  test("slots are those of a cron that watches the clock", async () => {
    const clock = await watch(zone, day);
    const [first, last] = [clock[0]!.at * minuteMs, clock.at(-1)!.at * minuteMs];
    const wrong = rules.flatMap((rule) => {
      const next = slotsOf({ cron: rule.cron, everyMs: null, zone, startAt: null, endAt: null });
      const slots: number[] = [];
      for (let slot = next(first - 1); slot !== null && slot <= last; slot = next(slot)) slots.push(slot);
      const oracle = expected(clock, rule);
      // From any moment, not only from the slot before.
      const astray = clock
        .filter((_, index) => index % 23 === 0)
        .map(({ at }) => at * minuteMs + 17_000)
        .filter((at) => at < (oracle.at(-1) ?? 0) && next(at) !== oracle.find((slot) => slot > at));
      const shown = (list: readonly number[]): string[] => list.map((slot) => new Date(slot).toISOString());
      return slots.join() === oracle.join() && astray.length === 0
        ? []
        : [{ cron: rule.cron, slots: shown(slots), oracle: shown(oracle), astray: shown(astray) }];
    });
    expect(wrong).toEqual([]);
  });
});

test("a skipped time happens at the change, a repeated one the first time", () => {
  const next = slotsOf({
    cron: "30 2 * * *",
    everyMs: null,
    zone: "Europe/Berlin",
    startAt: null,
    endAt: null,
  });
  const shown = (after: string): string => new Date(next(Date.parse(after))!).toISOString();

  expect(shown("2026-03-28T12:00:00Z")).toBe("2026-03-29T01:00:00.000Z");
  expect(shown("2026-03-29T01:00:00Z")).toBe("2026-03-30T00:30:00.000Z");
  expect(shown("2026-10-24T12:00:00Z")).toBe("2026-10-25T00:30:00.000Z");
  expect(shown("2026-10-25T00:30:00Z")).toBe("2026-10-26T01:30:00.000Z");
});

test("an interval is real time, whatever the clocks do", () => {
  const next = slotsOf({
    cron: null,
    everyMs: 90 * minuteMs,
    zone: "Europe/Berlin",
    startAt: null,
    endAt: null,
  });
  const slots = [next(Date.parse("2026-10-24T22:00:00Z"))!];
  while (slots.length < 20) slots.push(next(slots.at(-1)!)!);
  const gaps = new Set(slots.slice(1).map((slot, index) => slot - slots[index]!));

  expect(gaps).toEqual(new Set([90 * minuteMs]));
});

test("a pattern with seconds matches each of them, also through a clock change", () => {
  const next = slotsOf({
    cron: "*/10 * * * * *",
    everyMs: null,
    zone: "America/New_York",
    startAt: null,
    endAt: null,
  });
  let slot = Date.parse("2026-11-01T05:00:00Z");
  const end = slot + 3 * 3_600_000;
  let count = 0;
  for (; slot < end; count++) {
    const after = next(slot)!;
    expect(after - slot).toBe(10_000);
    slot = after;
  }
  expect(count).toBe(1_080);
});
