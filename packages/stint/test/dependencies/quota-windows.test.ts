/** Windows of quotas in time zones: they follow one another without a gap, also on days on which clocks change. */
import { expect, test } from "vitest";
import { sharedSchema } from "../support/fresh.ts";

const shared = sharedSchema();

/** A dependency with a quota, as a value of SQL. */
const dependency = (per: string, zone: string, more = ""): string =>
  `jsonb_populate_record(null::stint.dependency, jsonb_build_object('name', 'api', 'settings',
     jsonb_build_object('quota', jsonb_build_object('limit', 10, 'per', '${per}', 'zone', '${zone}'))${more}))`;

// Days on which clocks are set forward and back.
const changes: Record<string, readonly string[]> = {
  UTC: ["2026-03-29", "2026-10-25"],
  "Europe/Berlin": ["2026-03-29", "2026-10-25"],
  "America/New_York": ["2026-03-08", "2026-11-01"],
  // At midnight.
  "Africa/Cairo": ["2026-04-24", "2026-10-30"],
  "Asia/Kolkata": ["2026-03-29", "2026-12-31"],
};

test.each(Object.entries(changes).flatMap(([zone, days]) => days.map((day) => [zone, day] as const)))(
  "windows of a quota follow one another without a gap: %s on %s",
  async (zone, day) => {
    for (const per of ["minute", "hour", "day", "week", "month"]) {
      const faults = await shared().sql(
        `select t.at, stint.quota_start(d, t.at) as "from", stint.quota_end(d, t.at) as "to"
         from ${dependency(per, zone)} d
         cross join generate_series('${day}'::timestamptz - interval '1 day', '${day}'::timestamptz + interval '2 days', interval '7 minutes 13 seconds') t (at)
         where not (stint.quota_start(d, t.at) <= t.at and t.at < stint.quota_end(d, t.at)
           and stint.quota_start(d, stint.quota_end(d, t.at)) = stint.quota_end(d, t.at)
           and stint.quota_start(d, stint.quota_end(d, t.at) - interval '1 microsecond') = stint.quota_start(d, t.at))
         limit 3`,
      );
      expect({ per, faults }).toEqual({ per, faults: [] });
    }
  },
);

test("a used quota is whole again at midnight of its zone, and not an instant before", async () => {
  const used = `, 'quota_used', 10, 'quota_from', '2026-11-01 00:00 America/New_York'::timestamptz`;
  const left = async (at: string): Promise<unknown> =>
    (
      await shared().sql(
        `select stint.quota_left(d, '${at}'::timestamptz)::integer as left from ${dependency("day", "America/New_York", used)} d`,
      )
    )[0]?.["left"];
  // That day has 25 hours.
  expect(await left("2026-11-01 23:59:59.999999 America/New_York")).toBe(0);
  expect(await left("2026-11-02 00:00 UTC")).toBe(0);
  expect(await left("2026-11-02 00:00 America/New_York")).toBe(10);
  // A clock that was set back does not begin the window again.
  expect(await left("2026-10-31 12:00 America/New_York")).toBe(0);
});
