import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, InvalidPayloadError, typed } from "#stint/index.js";
import { stallRule } from "#stint/doctor/checks/stalls.js";
import { writeReports } from "#stint/sql/progress.js";
import { stepGaps } from "#stint/sql/doctor/stalls.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { running, wrongFences } from "../sql/jobs.ts";

const work = defineJob("work", { payload: typed<null>(), backoff: { steps: [0] } });

test("a loop continues from its last checkpoint after a failure", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const done: number[] = [];
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ checkpoint, lastCheckpoint, attempt }) => {
        for (let n = (await lastCheckpoint<number>()) ?? 0; n < 6; n++) {
          if (n === 3 && attempt === 1) throw new Error("no");
          done.push(n);
          await checkpoint(n + 1);
        }
        return await lastCheckpoint();
      }),
    ],
  });
  const job = await stint.enqueue(work, null);

  expect(await stint.waitFor(job, { timeout: "60s" })).toBe(6);
  expect(done).toEqual([0, 1, 2, 3, 4, 5]);
});

test("progress and log lines are seen while the job runs, and stay with it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const go = gate<undefined>();
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ progress, log, step }) => {
        for (let n = 0; n < 150; n++) log(`line ${n}\0\n`);
        progress(0.25, "a quarter");
        await step("first", () => ({ rows: 3 }));
        await go.opened;
        progress(1);
        log("last");
      }),
    ],
  });
  const job = await stint.enqueue(work, null);
  await until(async () => (await stint.steps(job)).progress?.fraction === 0.25, {
    message: "its progress is seen",
  });
  const seen = await stint.steps(job);
  expect(seen.progress).toMatchObject({ note: "a quarter", checkpointAt: null });
  expect(seen.progress?.lines).toHaveLength(100);
  expect(seen.progress?.lines.at(-1)).toMatchObject({ text: "line 149\uFFFD ", epoch: 1 });
  await until(async () => (await stint.steps(job)).steps.length === 1, { message: "its step is seen" });
  go.open(undefined);
  await stint.waitFor(job, { timeout: "60s" });

  const after = await stint.steps(job);
  expect(after.progress).toMatchObject({ fraction: 1, note: null });
  expect(after.progress?.lines.at(-1)?.text).toBe("last");
  expect(after.progress?.lineCount).toBeGreaterThan(100);
  expect(after.steps).toMatchObject([{ seq: 1, name: "first", state: "done", result: { rows: 3 } }]);
});

test("bad steps, checkpoints and progress get typed errors", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ maxPayloadBytes: 1_000 });
  const atomic = defineJob("atomic", { payload: typed<null>(), atomic: true, result: typed<unknown>() });
  const errors = gate<unknown[]>();
  const refused = async (call: () => unknown): Promise<unknown> => {
    try {
      return await call();
    } catch (error) {
      return error;
    }
  };
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step, sleep, waitForSignal, checkpoint, progress, log, extend }) => {
        await step("a", () => 1);
        errors.open([
          await refused(() => step("a", () => 1)),
          await refused(() => step("", () => 1)),
          await refused(() => step("x".repeat(300), () => 1)),
          await refused(() => step("b", 1 as never)),
          await refused(() => step("c", () => "x".repeat(2_000))),
          await refused(() => step("d", () => new Date())),
          await refused(() => step("outer", () => step("inner", () => 1))),
          await refused(() => sleep("3 parsecs")),
          await refused(() => sleep(new Date(Number.NaN))),
          await refused(() => waitForSignal("no spaces")),
          await refused(() => waitForSignal("go", { timout: 1 } as never)),
          await refused(() => checkpoint("x".repeat(2_000))),
          await refused(() => progress(2)),
          await refused(() => progress("half" as never)),
          await refused(() => log(1 as never)),
          await refused(() => extend("1h")),
        ]);
      }),
      handle(atomic, async ({ step, checkpoint }) => [
        String(await refused(() => step("a", () => 1))),
        String(await refused(() => checkpoint(1))),
      ]),
    ],
  });
  await stint.enqueue(work, null);
  const seen = await errors.opened;
  const large = seen[4] as InvalidPayloadError;
  expect(large).toBeInstanceOf(InvalidPayloadError);
  expect(large.message).toBe(
    'work: result of step "c" is at least 2002 bytes of JSON, over the limit of 1000; store it elsewhere and pass a reference',
  );
  for (const [index, error] of seen.entries())
    expect([index, error]).toEqual([
      index,
      expect.any([4, 5, 11].includes(index) ? InvalidPayloadError : InvalidOptionError),
    ]);
  const whole = await stint.enqueue(atomic, null);
  expect(await stint.waitFor(whole, { timeout: "60s" })).toEqual([
    expect.stringContaining("atomic"),
    expect.stringContaining("atomic"),
  ]);
});

test("reports of a stale fence are refused and change nothing", async () => {
  const fresh = await freshSchema();
  const fence = await running(fresh.db);
  const report = { fraction: 0.5, note: null, checkpoint: "1", lines: [] };
  for (const wrong of wrongFences(fence))
    expect(await writeReports(fresh.db, [{ fence: wrong, ...report }])).toEqual(["lost"]);
  expect(await fresh.sql(`select from stint.progress`)).toEqual([]);
  expect(await writeReports(fresh.db, [{ fence, ...report }])).toEqual(["written"]);
});

test("a handler extends its timeout up to its bound, and times out there", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const long = defineJob("long", { payload: typed<null>(), timeout: "2s", maxTimeout: "4s", attempts: 1 });
  const left: number[] = [];
  const ends = gate<number>();
  const watched = await startWorker(stint, {
    handlers: [
      handle(long, async ({ extend, signal }) => {
        const startedAt = performance.now();
        left.push(extend(100), extend("3s"), extend("1h"), extend("1s"));
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        ends.open(performance.now() - startedAt);
        throw signal.reason;
      }),
    ],
  });
  const { id } = await stint.enqueue(long, null);
  expect(await ends.opened).toBeGreaterThan(3_500);
  const settled = await watched.seen("settled");

  expect(left.map((ms) => Math.round(ms / 500) / 2)).toEqual([2, 3, 4, 4]);
  expect(settled).toMatchObject({ id, outcome: "timed-out", state: "dead" });
  expect((await stint.get(id))?.reason).toContain("4000 ms");
});

test("an attempt that reports nothing for stallAfter is reported as stalled", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const import_ = defineJob("import", { payload: typed<null>(), stallAfter: 200 });
  const go = gate<undefined>();
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(import_, async ({ step }) => {
        await step("begin", () => 1);
        await go.opened;
      }),
    ],
  });
  const { id } = await stint.enqueue(import_, null);
  expect(await seen("stalled")).toMatchObject({ id, kind: "import", stallAfterMs: 200 });
  const inspector = stint.inspector();
  const detail = await inspector.job(id);
  expect(detail?.stalledMs).toBeGreaterThan(200);
  expect(detail?.why.findings.map(({ text }) => text).join()).toContain("It is stalled");
  expect(await inspector.slow()).toMatchObject([{ id, because: "stalled" }]);
  go.open(undefined);
  await stint.waitFor(id, { timeout: "60s" });
  expect((await inspector.job(id))?.stalledMs).toBeNull();
});

test("the doctor suggests stallAfter from the pauses between steps", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await startWorker(stint, {
    handlers: [
      handle(work, async ({ step }) => {
        for (let n = 0; n < 25; n++) await step(`n${n}`, () => n);
      }),
    ],
  });
  await stint.waitFor(await stint.enqueue(work, null), { timeout: "60s" });
  const [gaps] = await stepGaps(fresh.db);
  expect(gaps).toMatchObject({ kind: "work", gaps: 24, stall_after_ms: null });

  const advise = (own: object): unknown => stallRule([{ ...gaps!, longest_ms: 25_000, ...own }]).findings;
  expect(advise({})).toMatchObject([
    { level: "note", fix: expect.stringContaining('stallAfter: "80s"') as string },
  ]);
  expect(advise({ stall_after_ms: 1_000 })).toMatchObject([{ level: "warning" }]);
  expect(advise({ stall_after_ms: 60_000 })).toEqual([]);
  expect(advise({ gaps: 5 })).toEqual([]);
});

test("complete ends a job that no worker runs, with its result and an audit", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const approval = defineJob("approval", {
    payload: typed<null>(),
    result: {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: (value: unknown) =>
          typeof value === "boolean" ? { value } : { issues: [{ message: "must be a boolean" }] },
      },
    },
  });
  const job = await stint.enqueue(approval, null, { delay: "2h" });
  const waiting = stint.waitFor(job, { timeout: "60s" });
  const known = fresh.client({ jobs: [approval] });
  await expect(known.complete(job, "yes")).rejects.toThrow("must be a boolean");
  await expect(known.complete(job, true, { why: "x" } as never)).rejects.toThrow(InvalidOptionError);
  await known.complete(job, true, { reason: "by phone" });

  expect(await waiting).toBe(true);
  expect(await stint.get(job)).toMatchObject({ state: "succeeded", attempts: 0, log: [], result: true });
  expect(await stint.audit(job.id)).toMatchObject([{ action: "complete", reason: "by phone" }]);
  await expect(known.complete(job, true)).rejects.toMatchObject({ code: "WRONG_STATE", state: "succeeded" });
  const fence = await running(fresh.db);
  await expect(stint.complete(fence.job)).rejects.toMatchObject({ code: "WRONG_STATE", state: "running" });
});
