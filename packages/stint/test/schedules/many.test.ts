import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { audit, startWorker } from "./support.ts";

const count = inLab ? 100_000 : 2_000;

test("schedules of many users that are due at once fire once each", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // Half a year away: none of them has a slot of its own while the test runs.
  const month = ((new Date().getUTCMonth() + 6) % 12) + 1;
  const zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
  const made = await stint.schedules.setMany(
    Array.from({ length: count }, (_, index) => ({
      name: `user:${index}`,
      cron: `${index % 60} ${index % 24} 15 ${month} *`,
      zone: zones[index % zones.length]!,
      job: audit,
      payload: { region: "eu" },
    })),
  );
  expect(made).toBe(count);
  await fresh.sql(
    "update stint.schedule set next_slot = date_trunc('second', clock_timestamp() - interval '1 second'), due_at = clock_timestamp()",
  );
  await startWorker(stint, { pools: { default: 50 } });

  const due = async (): Promise<number> =>
    (
      await fresh.sql<{ n: number }>(
        "select count(*)::int as n from stint.schedule where due_at <= clock_timestamp()",
      )
    )[0]!.n;
  await until(async () => (await due()) === 0, { deadlineMs: 300_000 });
  const [fired] = await fresh.sql(
    `select count(*)::int as slots, count(distinct schedule)::int as schedules, count(distinct job_id)::int as jobs
     from stint.schedule_slot where outcome = 'fired'`,
  );
  expect(fired).toEqual({ slots: count, schedules: count, jobs: count });

  const { schedules, next } = await stint.schedules.list({ prefix: "user:1", limit: 10 });
  expect(schedules.map(({ name }) => name.startsWith("user:1"))).not.toContain(false);
  expect(next).toBe(schedules.at(-1)?.name);
});
