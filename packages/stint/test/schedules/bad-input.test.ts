import { expect, test } from "vitest";
import { defineSchedule, InvalidOptionError, ScheduleNotFoundError, UnknownKindError } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { audit } from "./support.ts";

const job = { job: audit, payload: { region: "eu" } };
const past = new Date("2020-01-01T00:00:00Z");

/** What is wrong, and the option that the error names. */
const wrong: [string, object, RegExp][] = [
  ["no rule", {}, /needs cron or every/],
  ["both rules", { cron: "0 3 * * *", every: "1h" }, /cron or every, not both/],
  ["an impossible day", { cron: "0 0 31 2 *" }, /\.cron: must match some day/],
  ["a minute of 60", { cron: "60 * * * *" }, /\.cron: must be a cron pattern .*minute/],
  ["four fields", { cron: "* * * *" }, /\.cron: must have five fields/],
  ["seven fields", { cron: "0 0 0 1 1 * 2030" }, /\.cron: must have five fields/],
  ["an empty pattern", { cron: "" }, /\.cron: must have five fields/],
  ["words", { cron: "every day at noon" }, /\.cron/],
  ["a pattern of a megabyte", { cron: "1,".repeat(500_000) }, /\.cron: must be at most 256/],
  ["a pattern that is no string", { cron: 5 }, /\.cron: must be a cron pattern/],
  ["SQL in a pattern", { cron: "'; drop table job; --" }, /\.cron/],
  ["an unknown zone", { cron: "0 3 * * *", zone: "Europe/Berln" }, /\.zone: .*did you mean "Europe\/Berlin"/],
  ["an offset as a zone", { cron: "0 3 * * *", zone: "+02:00" }, /\.zone: must be the IANA name/],
  ["an abbreviation as a zone", { cron: "0 3 * * *", zone: "CET" }, /\.zone: must be the IANA name/],
  ["a zone in small letters", { cron: "0 3 * * *", zone: "utc" }, /\.zone: .*did you mean "UTC"/],
  ["a zone of another type", { cron: "0 3 * * *", zone: 2 }, /\.zone/],
  ["an interval below a second", { every: 999 }, /\.every: must be at least/],
  ["an interval that is no time", { every: "soon" }, /\.every: must be a duration/],
  ["an unknown catchUp", { every: "1h", catchUp: "al" }, /\.catchUp: .*did you mean "all"/],
  ["an unknown overlap", { every: "1h", overlap: "queued" }, /\.overlap: .*did you mean "queue"/],
  ["a negative jitter", { every: "1h", jitter: -1 }, /\.jitter/],
  ["a jitter of two days", { every: "1h", jitter: "2d" }, /\.jitter: must be at most/],
  ["an end in the past", { every: "1h", endAt: past }, /\.endAt: must be in the future/],
  [
    "an end before its start",
    { every: "1h", startAt: new Date("2031-01-02"), endAt: new Date("2031-01-01") },
    /\.endAt: must not be before startAt/,
  ],
  ["a start that is no date", { every: "1h", startAt: "2030-01-01" }, /\.startAt: must be a valid Date/],
  ["an invalid date", { every: "1h", endAt: new Date(NaN) }, /\.endAt: must be a valid Date/],
  [
    "quiet hours without a time",
    { every: "1h", quietHours: { from: "22", to: "07:00" } },
    /quietHours\.from/,
  ],
  [
    "quiet hours of no length",
    { every: "1h", quietHours: { from: "07:00", to: "07:00" } },
    /quietHours: must begin and end/,
  ],
  [
    "quiet hours in an unknown zone",
    { every: "1h", quietHours: { from: "22:00", to: "07:00", zone: "Mars" } },
    /quietHours\.zone/,
  ],
  ["a misspelt option", { cron: "0 3 * * *", timezone: "UTC" }, /timezone/],
  [
    "an option that jobs of schedules cannot have",
    { every: "1h", options: { delay: "1h" } },
    /options\.delay/,
  ],
  ["a key too long for a slot", { every: "1h", options: { key: "k".repeat(500) } }, /options\.key/],
];

const written = async (fresh: Fresh): Promise<number> =>
  (
    await fresh.sql<{ n: number }>(
      "select (select count(*) from stint.schedule)::int + (select count(*) from stint.audit)::int as n",
    )
  )[0]!.n;

test("bad input gets a typed error that names the option, and changes nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const faults: string[] = [];
  for (const [what, timing, message] of wrong) {
    const error = await stint.schedules.set("s", { ...job, ...timing } as never).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof InvalidOptionError) || !message.test(error.message))
      faults.push(`${what}: ${error instanceof Error ? `${error.name} ${error.message}` : "was accepted"}`);
  }
  expect(faults).toEqual([]);
  expect(await written(fresh)).toBe(0);
});

test("one bad schedule of many fails the whole call", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const call = stint.schedules.setMany([
    { name: "a", every: "1h", ...job },
    { name: "b", cron: "0 0 30 2 *", ...job },
  ]);

  await expect(call).rejects.toThrow(/schedules\.setMany\[1\]\.cron/);
  expect(await written(fresh)).toBe(0);
});

test.each(["", " ", "a b", "ä", "x".repeat(129), "../x\n", 7, null, undefined, {}])(
  "%j is no name of a schedule",
  async (name) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    expect(() => defineSchedule(name as string, { every: "1h", ...job })).toThrow(InvalidOptionError);
    await expect(stint.schedules.set(name as string, { every: "1h", ...job })).rejects.toThrow(
      InvalidOptionError,
    );
    await expect(stint.schedules.get(name as string)).rejects.toThrow(InvalidOptionError);
  },
);

test("actions on a schedule that does not exist fail with a typed error", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await expect(stint.schedules.pause("none")).rejects.toBeInstanceOf(ScheduleNotFoundError);
  await expect(stint.schedules.resume("none")).rejects.toBeInstanceOf(ScheduleNotFoundError);
  await expect(stint.schedules.runNow("none")).rejects.toBeInstanceOf(ScheduleNotFoundError);
  await expect(stint.schedules.next("none")).rejects.toBeInstanceOf(ScheduleNotFoundError);
  expect(await stint.schedules.remove("none")).toBe(false);
  expect(await stint.schedules.get("none")).toBeUndefined();
  await expect(stint.schedules.set("x", { every: "1h", job: "nokind", payload: 1 })).rejects.toBeInstanceOf(
    UnknownKindError,
  );
});
