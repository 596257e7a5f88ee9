import { expect, test } from "vitest";
import { gate } from "../support/gate.ts";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { audit, ledger, makeLate, startWorker } from "./support.ts";

test("each slot fires once, at its time, with a job that names it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const seen: { name: string; slot: string; key: string; early: boolean }[] = [];
  await startWorker(stint, {}, ({ schedule, key }) => {
    const { name, slot } = schedule!;
    seen.push({ name, slot: slot.toISOString(), key, early: slot.getTime() > Date.now() + 500 });
  });
  const made = await stint.schedules.set("tick", {
    cron: "* * * * * *",
    job: audit,
    payload: { region: "eu" },
  });
  expect(made).toMatchObject({ state: "active", owner: null, kind: "audit", payload: { region: "eu" } });

  await until(() => seen.length >= 3);
  const rows = await ledger(fresh, "tick");
  const slots = rows.map(({ slot }) => slot.getTime());
  expect(rows.every(({ outcome }) => outcome === "fired" || outcome === "missed")).toBe(true);
  expect(slots.every((slot, index) => index === 0 || slot - (slots[index - 1] ?? 0) >= 1_000)).toBe(true);
  expect(new Set(seen.map(({ slot }) => slot)).size).toBe(seen.length);
  expect(seen[0]).toEqual({ name: "tick", slot: seen[0]!.slot, key: `tick@${seen[0]!.slot}`, early: false });
});

test("the next slot is visible as a row before any worker runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.schedules.set("daily", { cron: "0 3 * * *", job: audit, payload: { region: "eu" } });
  const [row] = await fresh.sql<{ next_slot: Date }>("select next_slot from stint.schedule");

  expect(row?.next_slot.toISOString()).toMatch(/T03:00:00\.000Z$/);
  expect(row!.next_slot.getTime()).toBeGreaterThan(Date.now());
});

test("a job that dies does not end the series", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await startWorker(stint, { attempts: 1 }, () => {
    throw new Error("no");
  });
  await stint.schedules.set("tick", { every: "1s", job: audit, payload: { region: "eu" }, overlap: "skip" });

  const dead = await until(async () => {
    const { jobs } = await stint.list({ state: "dead" });
    return jobs.length >= 2 && jobs;
  });
  expect(new Set((dead || []).map(({ key }) => key)).size).toBeGreaterThanOrEqual(2);
});

test.each([
  ["all", 10],
  ["last", 1],
  ["none", 0],
] as const)("after an outage, catchUp %s fires %i of ten missed slots", async (catchUp, fired) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.schedules.set("hourly", { every: "1h", job: audit, payload: { region: "eu" }, catchUp });
  // Between two full hours, so that no slot comes while the test runs, for as long as it may.
  const now = Date.now() % 3_600_000;
  if (now > 3_480_000 || now < 61_000) return;
  await makeLate(fresh, "hourly", "10 hours");
  await startWorker(stint);
  await until(async () => (await stint.schedules.get("hourly"))!.nextSlot!.getTime() > Date.now());
  const schedule = (await stint.schedules.get("hourly"))!;

  expect({ fired: schedule.fired, missed: schedule.missed }).toEqual({ fired, missed: 10 - fired });
  const rows = await ledger(fresh, "hourly");
  expect(rows.reduce((sum, { slots }) => sum + slots, 0)).toBe(10);
  expect(rows.filter(({ outcome }) => outcome === "fired")).toHaveLength(fired);
  expect(schedule.nextSlot!.getTime() % 3_600_000).toBe(0);
  expect(schedule.nextSlot!.getTime() - Date.now()).toBeLessThanOrEqual(3_600_000);
});

test("overlap skip: a slot that comes while its job runs is skipped and counted", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const open = gate();
  let runs = 0;
  await startWorker(stint, {}, async () => {
    runs += 1;
    await open.opened;
  });
  await stint.schedules.set("tick", { every: "1s", job: audit, payload: { region: "eu" }, overlap: "skip" });

  await until(async () => ((await stint.schedules.get("tick"))?.skipped ?? 0) >= 2);
  expect(runs).toBe(1);
  open.open();
  await until(() => runs >= 2);
  // A worker that is late by a whole slot misses one.
  const outcomes = (await ledger(fresh, "tick"))
    .map(({ outcome }) => outcome)
    .filter((outcome) => outcome !== "missed");
  expect(outcomes.slice(0, 3)).toEqual(["fired", "skipped", "skipped"]);
});

test("overlap queue: slots wait for the job before, and run one after the other", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const open = gate();
  let [running, most, runs] = [0, 0, 0];
  await startWorker(stint, {}, async () => {
    running += 1;
    runs += 1;
    most = Math.max(most, running);
    await open.opened;
    running -= 1;
  });
  await stint.schedules.set("tick", {
    every: "1s",
    job: audit,
    payload: { region: "eu" },
    overlap: "queue",
    catchUp: "all",
  });
  await until(() => runs === 1);
  const [first] = await ledger(fresh, "tick");
  await until(() => Date.now() > first!.slot.getTime() + 3_000);
  open.open();
  await until(() => runs >= 3);

  expect(most).toBe(1);
  const rows = await ledger(fresh, "tick");
  expect(rows.every(({ outcome }) => outcome === "fired")).toBe(true);
  const gaps = rows.slice(1).map(({ slot }, index) => slot.getTime() - rows[index]!.slot.getTime());
  expect(new Set(gaps)).toEqual(new Set([1_000]));
});
