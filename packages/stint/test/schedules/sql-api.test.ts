import { expect, test } from "vitest";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { audit, ledger, startWorker } from "./support.ts";

const set = async (fresh: Fresh, name: string | null, options: unknown): Promise<unknown> =>
  (
    await fresh.sql<{ outcome: unknown }>("select stint.set_schedule($1, $2::jsonb) as outcome", [
      name,
      JSON.stringify(options),
    ])
  )[0]?.outcome;

const good = { every: "1h", kind: "audit", payload: { region: "eu" }, options: { queue: "default" } };

test("a schedule made in SQL commits with its transaction, and any worker fires it", async () => {
  const fresh = await freshSchema();
  const seen: unknown[] = [];
  await startWorker(fresh.client(), {}, ({ payload, meta }) => void seen.push([payload, meta["who"]]));
  expect(
    await set(fresh, "user:7", {
      cron: "* * * * * *",
      kind: "audit",
      payload: { region: "us" },
      options: { meta: { who: "sql" } },
    }),
  ).toBe("created");

  await until(() => seen.length >= 2);
  expect(seen[0]).toEqual([{ region: "us" }, "sql"]);
  expect(
    (await ledger(fresh, "user:7")).every(({ outcome }) => outcome === "fired" || outcome === "missed"),
  ).toBe(true);
});

test("the same call again changes nothing; another one changes the schedule", async () => {
  const fresh = await freshSchema();
  expect(await set(fresh, "s", good)).toBe("created");
  expect(await set(fresh, "s", good)).toBe("unchanged");
  expect(await set(fresh, "s", { ...good, every: "2h" })).toBe("changed");
  expect(await fresh.client().schedules.get("s")).toMatchObject({
    everyMs: 7_200_000,
    state: "active",
    updatedBy: expect.stringMatching(/^sql:/) as string,
  });
});

test("the TypeScript client and SQL store the same schedule for the same input", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const endAt = new Date(Date.now() + 86_400_000);
  await stint.schedules.set("s", {
    cron: "0 3  * * 1-5",
    zone: "Europe/Berlin",
    jitter: "30s",
    catchUp: "all",
    overlap: "queue",
    endAt,
    quietHours: { from: "22:00", to: "07:00", zone: "Europe/Berlin" },
    job: audit,
    payload: { region: "eu" },
    options: { tags: ["a"], attempts: 3, timeout: "5m", tenant: "t" },
  });

  expect(
    await set(fresh, "s", {
      cron: "0 3 * * 1-5",
      zone: "Europe/Berlin",
      jitter: "30s",
      catchUp: "all",
      overlap: "queue",
      endAt: endAt.toISOString(),
      quietHours: { from: "22:00", to: "07:00", zone: "Europe/Berlin" },
      kind: "audit",
      payload: { region: "eu" },
      options: { queue: "default", tags: ["a"], attempts: 3, timeout: "5m", tenant: "t" },
    }),
  ).toBe("unchanged");
});

test.each<[string, string | null, unknown, RegExp]>([
  ["no name", null, good, /the name must have/],
  ["a name with a space", "a b", good, /the name must have/],
  ["no object", "s", [1], /options must be a JSON object/],
  ["no rule", "s", { kind: "audit" }, /give cron or every/],
  ["two rules", "s", { ...good, cron: "* * * * *" }, /give cron or every/],
  ["an unknown option", "s", { ...good, timezone: "UTC" }, /unknown option "timezone"/],
  [
    "an unknown kind",
    "s",
    { every: "1h", kind: "nokind", payload: 1 },
    /no worker here has ever served kind "nokind"/,
  ],
  ["a minute of 60", "s", { ...good, every: null, cron: "60 * * * *" }, /a minute from 0 to 59/],
  ["four fields", "s", { ...good, every: null, cron: "* * * *" }, /five fields/],
  ["an impossible day", "s", { ...good, every: null, cron: "0 0 30,31 FEB *" }, /never matches a day/],
  ["a range that goes down", "s", { ...good, every: null, cron: "0 5-1 * * *" }, /an? hour from 0 to 23/],
  ["words", "s", { ...good, every: null, cron: "a b c d e" }, /cannot be read/],
  ["a step of 0", "s", { ...good, every: null, cron: "*/0 * * * *" }, /a minute that cannot be read/],
  ["a sixth Monday", "s", { ...good, every: null, cron: "0 0 * * MON#6" }, /a weekday that cannot be read/],
  ["a list of job options", "s", { ...good, options: [] }, /options must be a JSON object/],
  [
    "a debounce",
    "s",
    { ...good, options: { debounce: { key: "k", wait: "1s" } } },
    /options.debounce cannot/,
  ],
  [
    "a throttle",
    "s",
    { ...good, options: { throttle: { key: "k", every: "1s" } } },
    /options.throttle cannot/,
  ],
  ["a dependency", "s", { ...good, options: { after: [] } }, /options.after cannot/],
  ["a long pattern", "s", { ...good, every: null, cron: "1,".repeat(1_000) }, /at most 256/],
  ["an unknown zone", "s", { ...good, zone: "Mars/Base" }, /zone must be the IANA name/],
  ["an offset", "s", { ...good, zone: "+02" }, /zone must be the IANA name/],
  ["an abbreviation", "s", { ...good, zone: "CET" }, /zone must be the IANA name/],
  ["half a second", "s", { ...good, every: "500ms" }, /every must be/],
  ["a bad catchUp", "s", { ...good, catchUp: "some" }, /catchUp must be/],
  ["a bad overlap", "s", { ...good, overlap: "x" }, /overlap must be/],
  ["a jitter of two days", "s", { ...good, jitter: "2d" }, /jitter must be/],
  ["a jitter that is no time", "s", { ...good, jitter: "x" }, /jitter must be/],
  ["an end in the past", "s", { ...good, endAt: "2020-01-01T00:00:00Z" }, /endAt must be in the future/],
  [
    "a start without a zone",
    "s",
    { ...good, startAt: "2030-01-01T00:00:00" },
    /startAt must be a time with its zone/,
  ],
  [
    "quiet hours of no length",
    "s",
    { ...good, quietHours: { from: "07:00", to: "07:00" } },
    /quietHours must be/,
  ],
  ["a delay of its jobs", "s", { ...good, options: { delay: "1h" } }, /options\.delay cannot be given/],
])("SQL refuses %s, and changes nothing", async (_, name, options, message) => {
  const fresh = await freshSchema();
  const refused = await set(fresh, name, options).catch((error: unknown) => error);

  expect(refused).toMatchObject({ code: "22023", message: expect.stringMatching(message) as string });
  expect(await fresh.sql("select from stint.schedule")).toEqual([]);
});

test("a pattern that workers cannot read is kept with its error; others fire", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  expect(await set(fresh, "odd", { ...good, every: null, cron: "0 0 WW * *" })).toBe("created");
  await set(fresh, "fine", { ...good, every: "1s" });
  await startWorker(stint);

  await until(async () => (await stint.schedules.get("fine"))!.fired >= 1);
  await until(async () => (await stint.schedules.get("odd"))!.state === "broken");
  expect((await stint.schedules.get("odd"))?.error).toContain("must be a cron pattern");
  expect(await set(fresh, "odd", { ...good, every: null, cron: "0 0 * * *" })).toBe("changed");
  await until(async () => (await stint.schedules.get("odd"))!.nextSlot !== null);
});

test("a schedule that is paused, resumed, run and removed in SQL reports what it did", async () => {
  const fresh = await freshSchema();
  await set(fresh, "s", good);
  const call = async (text: string): Promise<unknown> =>
    (await fresh.sql<{ r: unknown }>(`select ${text} as r`))[0]?.r;

  expect(await call("stint.pause_schedule('s', 'incident')")).toBe(true);
  expect(await call("stint.pause_schedule('s')")).toBe(false);
  expect(await call("stint.pause_schedule('none')")).toBe(null);
  expect(await call("stint.resume_schedule('s')")).toBe(true);
  expect(await call("stint.resume_schedule('s')")).toBe(false);
  const id = await call("stint.run_schedule('s', 'now')");
  expect(await fresh.client().get(id as string)).toMatchObject({ state: "ready", kind: "audit" });
  expect(await call("stint.remove_schedule('s')")).toBe(true);
  expect(await call("stint.remove_schedule('s')")).toBe(false);
});

test("a repeated run of a schedule with the same id enqueues and records nothing more", async () => {
  const fresh = await freshSchema();
  await set(fresh, "s", good);
  const [a, b] = ["018f0000-0000-7000-8000-00000000000a", "018f0000-0000-7000-8000-00000000000b"];
  for (const id of [a, b, a, b])
    expect(await fresh.sql("select stint.run_schedule('s', id => $1) as id", [id])).toEqual([{ id }]);
  const [counted] = await fresh.sql(
    "select (select count(*) from stint.job)::integer as jobs, (select count(*) from stint.schedule_slot)::integer as slots",
  );
  expect(counted).toEqual({ jobs: 2, slots: 2 });
});
