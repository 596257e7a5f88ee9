import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, snooze, typed, type QuietHours } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { audit, startWorker } from "./support.ts";

const hourMs = 3_600_000;
const time = (at: number): string => new Date(at).toISOString().slice(11, 16);

/** Quiet hours in UTC, by hours from now. */
function hours(from: number, to: number): { quietHours: QuietHours; end: number } {
  const end = Math.floor((Date.now() + to * hourMs) / 60_000) * 60_000;
  return { quietHours: { from: time(Date.now() + from * hourMs), to: time(end) }, end };
}

/** A delay is counted from the moment at which the database writes it. */
function expectAt(job: unknown, end: number): void {
  const { runAt } = job as { runAt: Date };
  expect(runAt.getTime() - end).toBeGreaterThanOrEqual(0);
  expect(runAt.getTime() - end).toBeLessThan(60_000);
}

test("a job of a kind with quiet hours starts when they are over, no attempt spent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { quietHours, end } = hours(-1, 2);
  const calm = defineJob("calm", { payload: typed<null>(), quietHours });
  let runs = 0;
  await startWorker(stint, { handlers: [handle(calm, () => void (runs += 1))] });
  const { id } = await stint.enqueue(calm, null);

  const job = await until(async () => {
    const found = await stint.get(id);
    return found?.state === "scheduled" && found;
  });
  expect(job).toMatchObject({ attempts: 0, interruptions: 1 });
  expectAt(job, end);
  expect(runs).toBe(0);
});

test("quiet hours of a job and of a schedule bind their jobs, not others of the kind", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { quietHours, end } = hours(-1, 2);
  await startWorker(stint);
  const quiet = await stint.enqueue(audit, { region: "eu" }, { quietHours });
  const other = await stint.enqueue(audit, { region: "eu" });
  await stint.schedules.set("tick", {
    every: "1s",
    job: audit,
    payload: { region: "eu" },
    quietHours,
    overlap: "skip",
  });

  await stint.waitFor(other.id, { timeout: "60s" });
  await until(async () => (await stint.get(quiet.id))?.state === "scheduled");
  await until(async () => (await stint.schedules.get("tick"))!.fired === 1);
  const { lastJobId } = (await stint.schedules.get("tick"))!;
  expect(await stint.get(lastJobId!)).toMatchObject({ state: "scheduled", runAt: new Date(end) });
});

test.each(["retry", "snooze"] as const)(
  "a %s that would be due in quiet hours is due at their end",
  async (how) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const { quietHours, end } = hours(0.1, 2);
    const run = (): unknown => {
      if (how === "snooze") return snooze("1h");
      throw new Error("no");
    };
    const calm = defineJob("calm", {
      payload: typed<null>(),
      backoff: () => 3_600_000,
      quietHours,
    });
    await startWorker(stint, { handlers: [handle(calm, run as never)] });
    const { id } = await stint.enqueue(calm, null);

    const job = await until(async () => {
      const found = await stint.get(id);
      return (found?.state === "retrying" || found?.state === "scheduled") && found;
    });
    // The delay is sent as milliseconds, and counted from when the database writes it.
    expect(Math.abs((job as { runAt: Date }).runAt.getTime() - end)).toBeLessThan(60_000);
  },
);

test("quiet hours that cannot work are refused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const wrong = { from: "7", to: "08:00" };
  expect(() => defineJob("calm", { payload: typed<null>(), quietHours: wrong })).toThrow(InvalidOptionError);
  await expect(stint.enqueue(audit, { region: "eu" }, { quietHours: wrong })).rejects.toThrow(
    /quietHours\.from/,
  );
  expect(await fresh.sql("select from stint.job")).toEqual([]);
});
