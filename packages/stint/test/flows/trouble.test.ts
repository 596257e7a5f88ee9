import { expect, test } from "vitest";
import { flowsRule } from "#stint/doctor/checks/flows.js";
import { defineJob, entry, handle, PermanentError, typed, type Handler, type Stint } from "#stint/index.js";

import { flowProblems } from "#stint/sql/doctor/flows.js";
import { jobsOf } from "../inspect/inspectors.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";

const bad = defineJob("bad", { payload: typed<object>() });
const waits = defineJob("waits", { payload: typed<object>() });
const undo = defineJob("undo", { payload: typed<object>() });

const fails = (job: typeof bad): Handler =>
  handle(job, () => {
    throw new PermanentError("refused");
  });

async function work(stint: Stint, handlers: Handler[]): Promise<void> {
  await stint.worker({ pools: { default: 2 }, handlers }).start();
}

/** Summary and findings, as `stint jobs why` prints them. */
async function why(fresh: Fresh, id: string): Promise<string> {
  const explanation = await jobsOf(fresh).why(id);
  const lines = explanation?.findings.map(({ text, advice }) => `${text} ${advice ?? ""}`) ?? [];
  return [explanation?.summary, ...lines].join("\n");
}

const findings = async (fresh: Fresh): Promise<string[]> =>
  flowsRule(await flowProblems(fresh.db), "stint").findings.map(
    ({ level, title, what }) => `${level}: ${title}: ${what}`,
  );

test("why and the doctor name the dead job that others wait for", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const dead = await stint.enqueue(bad, {});
  const live = await stint.enqueue(waits, {}, { delay: "1h" });
  const job = await stint.enqueue(waits, {}, { after: [live, dead] });
  expect(await findings(fresh)).toEqual([]);
  await work(stint, [fails(bad)]);
  await until(async () => (await stint.get(dead))?.state === "dead", { message: "it is dead" });

  const text = await why(fresh, job.id);
  expect(text).toContain("It waits for 2 of 2 jobs.");
  expect(text).toContain(`It waits for bad ${dead.id}, which is dead. Replay that job: `);
  expect(text).toContain(`It waits for waits ${live.id}, which is scheduled.`);
  expect(await why(fresh, dead.id)).toContain("1 job is waiting for it. They run after a replay");
  expect(await findings(fresh)).toEqual([
    `warning: A job waits for one that failed: waits ${job.id}: it waits for bad ${dead.id}, which is dead`,
  ]);
});

test("why and the doctor show a refused continuation", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const missing = "00000000-0000-7000-8000-000000000001";
  await work(stint, [handle(bad, ({ continueWith }) => continueWith(waits, {}, { after: [missing] }))]);
  const job = await stint.enqueue(bad, {});
  await until(async () => (await stint.get(job))?.state === "succeeded", { message: "it has ended" });

  expect(await why(fresh, job.id)).toMatch(
    /Its chain ended here: its continuation was refused: .*no job 0000/,
  );
  expect(await findings(fresh)).toEqual([
    expect.stringMatching(/^warning: A continuation was refused: bad .*no job 0000/) as string,
  ]);
});

test("the doctor reports dead compensations and batches that stay open", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await work(stint, [fails(bad), fails(undo), handle(waits, () => undefined)]);
  await stint.flow("order", {
    first: entry(waits, {}, { compensate: entry(undo, {}) }),
    second: entry(bad, {}, { after: ["first"] }),
  });
  const batch = await stint.batch([entry(waits, {})], { onComplete: entry(waits, {}), open: true });
  await until(async () => (await stint.list({ kind: "undo", state: "dead" })).jobs.length === 1, {
    message: "the compensation is dead",
  });
  expect(await why(fresh, batch.callback.id)).toContain("Its batch is open");
  await fresh.sql(`update stint.job set created_at = now() - interval '2 days' where state = 'parked'`);

  expect(await findings(fresh)).toEqual([
    expect.stringMatching(/^error: A compensation is dead: undo .*: it undoes /) as string,
    expect.stringContaining(
      `warning: A batch was not closed for a day: waits ${batch.callback.id}`,
    ) as string,
  ]);
});

test("why of a job that its flow cancelled blames the flow, not its handler", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const flow = await stint.flow("order", {
    first: entry(waits, {}, { compensate: entry(undo, {}) }),
    second: entry(bad, {}, { after: ["first"] }),
    third: entry(waits, {}, { after: ["second"] }),
  });
  await work(stint, [fails(bad), handle(undo, () => undefined), handle(waits, () => undefined)]);
  await until(async () => (await stint.get(flow.jobs.third))?.state === "cancelled", {
    message: "it is cancelled",
  });

  const text = await why(fresh, flow.jobs.third.id);
  expect(text).toMatch(/^It was cancelled with its flow/);
  expect(text).toContain(`Its flow was stopped: bad ${flow.jobs.second.id} is dead.`);
});
