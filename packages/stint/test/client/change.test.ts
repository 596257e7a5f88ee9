import { expect, test } from "vitest";
import { defineJob, InvalidOptionError, InvalidPayloadError, typed } from "#stint/index.js";
import { park } from "#stint/sql/park.js";
import { requeue } from "#stint/sql/requeue.js";
import { suspend } from "#stint/sql/suspend.js";
import { wrongTallies } from "../support/tallies.ts";
import { freshSchema } from "../support/fresh.ts";
import { running, take } from "../sql/jobs.ts";

const positive = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) =>
      (value as { n: number }).n > 0 ? { value } : { issues: [{ message: "must be positive" }] },
  },
} as const;
const work = defineJob("work", { queue: "main", payload: positive });
const plain = defineJob("plain", { payload: typed<{ n: number }>() });

test("change gives a waiting job another payload, time and priority, audited", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work, plain] });
  const job = await stint.enqueue(work, { n: 1 }, { delay: "1h" });
  const runAt = new Date(Date.now() + 7_200_000);

  await stint.change(
    job,
    { payload: { n: 2 }, runAt, priority: -5 },
    { reason: "wrong amount", actor: "ann" },
  );
  expect(await stint.get(job)).toMatchObject({ state: "scheduled", payload: { n: 2 }, priority: -5, runAt });
  await stint.change(job, { delay: 0 });
  expect(await stint.get(job)).toMatchObject({ state: "ready", payload: { n: 2 } });
  await stint.change(job, { delay: "1d" });
  expect(await stint.get(job)).toMatchObject({ state: "scheduled" });

  const audit = await fresh.sql(
    `select actor, action, reason, change - 'runAt' as change from stint.audit where job_id = $1 order by at limit 1`,
    [job.id],
  );
  expect(audit).toEqual([
    {
      actor: "ann",
      action: "change",
      reason: "wrong amount",
      change: { payload: true, priority: { from: 0, to: -5 } },
    },
  ]);
  expect(await wrongTallies(fresh)).toEqual([]);
});

test("a job with a new payload has all its attempts and remembers nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const fence = await running(fresh.db, { payload: { n: 1 } });
  await fresh.sql(
    `insert into stint.step (job_id, seq, name, type, result, epoch) values ($1, 1, 'a', 'step', '1', 1)`,
    [fence.job],
  );
  const ending = { outcome: "failed" as const };
  await requeue(fresh.db, [{ fence, state: "retrying", delayMs: 3_600_000, countsAs: "attempt", ending }]);

  await stint.change(fence.job, { priority: 2 });
  expect(await stint.steps(fence.job)).toMatchObject({ steps: [{ name: "a" }] });
  await stint.change(fence.job, { payload: { n: 2 } });
  expect(await stint.steps(fence.job)).toMatchObject({ steps: [] });
  expect(await stint.get(fence.job)).toMatchObject({ state: "retrying", attempts: 0, payload: { n: 2 } });
  await stint.change(fence.job, { runAt: new Date(0) });
  expect(await take(fresh.db)).toMatchObject([{ attempt: 1, payload: '{"n": 2}' }]);
  expect(await wrongTallies(fresh)).toEqual([]);
});

test("change refuses jobs that run, have ended, or are in the middle of their work", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const wrong = { code: "WRONG_STATE" };
  const busy = await running(fresh.db);
  await expect(stint.change(busy.job, { priority: 1 })).rejects.toMatchObject({ ...wrong, state: "running" });
  await suspend(fresh.db, [{ fence: busy, seq: 1, name: "signal go", awaits: "go", until: null }]);
  await expect(stint.change(busy.job, { payload: 1 })).rejects.toThrow(/is parked \(signal\)/);
  await expect(stint.change(busy.job, { delay: 0 })).rejects.toMatchObject(wrong);
  await stint.change(busy.job, { priority: 1 });

  const reviewed = await running(fresh.db);
  const ending = { outcome: "parked" as const };
  await park(fresh.db, [{ fence: reviewed, reason: "review", note: null, until: null, ending }]);
  await expect(stint.change(reviewed.job, { delay: "1h" })).rejects.toMatchObject(wrong);
  await stint.change(reviewed.job, { payload: { n: 3 } });
  expect(await stint.get(reviewed.job)).toMatchObject({ state: "parked", parkReason: "review" });

  await stint.complete(reviewed.job);
  await expect(stint.change(reviewed.job, { priority: 1 })).rejects.toMatchObject({ state: "succeeded" });
  expect(await stint.get(reviewed.job)).toMatchObject({ priority: 0, payload: { n: 3 } });
  await expect(stint.change("00000000-0000-7000-8000-000000000000", { priority: 1 })).rejects.toMatchObject({
    code: "JOB_NOT_FOUND",
  });
});

test("change refuses what enqueue would refuse, and changes nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work, plain] });
  const job = await stint.enqueue(work, { n: 1 }, { delay: "1h" });
  const before = await stint.get(job);

  const wrong: [unknown, RegExp | typeof InvalidOptionError | typeof InvalidPayloadError][] = [
    [{}, InvalidOptionError],
    [null, InvalidOptionError],
    [{ prioritee: 3 }, /did you mean "priority"/],
    [{ priority: 1.5 }, InvalidOptionError],
    [{ priority: 40_000 }, InvalidOptionError],
    [{ delay: "1h", runAt: new Date() }, InvalidOptionError],
    [{ delay: -1 }, InvalidOptionError],
    [{ runAt: new Date(Number.NaN) }, InvalidOptionError],
    [{ payload: { n: 0 } }, /must be positive/],
    [{ payload: { n: 1, more: () => 1 } }, InvalidPayloadError],
    [{ payload: { n: 1, more: "x".repeat(2_000_000) } }, InvalidPayloadError],
  ];
  for (const [change, error] of wrong)
    await expect(stint.change(job, change as never)).rejects.toThrow(error);
  await expect(stint.change(job, { priority: 1 }, { why: "x" } as never)).rejects.toThrow(InvalidOptionError);
  expect(await stint.get(job)).toEqual(before);
  expect(await stint.audit(job.id)).toEqual([]);
});
