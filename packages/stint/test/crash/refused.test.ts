import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, unusedSchema } from "../support/fresh.ts";
import { overshoot, recordTokens, tokenHistory } from "../support/token-history.ts";
import { until } from "../support/until.ts";
import { builtProgram, startWorkerProcess } from "../support/worker-process.ts";

const program = fileURLToPath(new URL("../fixtures/refused-process.mjs", import.meta.url));
const call = defineJob("call", { payload: typed<{ refused: boolean }>() });
const deferred = defineJob("deferred", { queue: "deferring", payload: typed<object>() });
const worker = { pools: { default: 4 }, lease: "1h", rescueEvery: 300, maxCrashes: 100 } as const;

test("kill -9 while a 429 is being recorded loses no job, and halves at most once", async () => {
  const fresh = await unusedSchema();
  const stint = fresh.client();
  await recordTokens(fresh);
  const start = async (): ReturnType<typeof startWorkerProcess> =>
    await startWorkerProcess(fresh, { program: builtProgram(program), worker });
  const doomed = await start();
  const blocker = await adminClient(fresh.url);
  onTestFinished(() => blocker.end());
  await stint.enqueue(call, { refused: true });
  // The handler waits for its signal: its tokens are taken, and the statement that records the 429 will wait for this lock.
  await doomed.reported("refusing");
  await blocker.query(`begin; select from "${fresh.schema}".dependency for update`);
  await fresh.sql("create table stint.go ()");
  const recording = `select from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where not l.granted and a.query like '%stint:slow-dependencies%' and a.query like '%' || $1 || '%'`;
  await until(async () => (await fresh.sql(recording, [fresh.schema])).length > 0, {
    message: "the 429 is being recorded",
  });
  doomed.kill("SIGKILL");
  await doomed.ended;
  await blocker.query("commit");

  await stint.enqueueMany([1, 2, 3].map(() => entry(call, { refused: false })));
  await start();
  await until(
    async () => {
      await fresh.sql(
        `update stint.job j set lease_until = clock_timestamp() from stint.worker w
         where j.state = 'running' and j.worker = w.id and w.pid = $1 and j.lease_until > clock_timestamp()`,
        [doomed.pid],
      );
      const [row] = await fresh.sql(
        `select count(*)::integer as ended from stint.history where state = 'succeeded'`,
      );
      return row!["ended"] === 4;
    },
    { message: "all jobs have run", deadlineMs: 60_000 },
  );
  const status = await stint.dependencies.get("api");
  expect([4, 8]).toContain(status!.effectiveConcurrency);
  expect(status).toMatchObject({ running: 0, waiting: 0 });
  expect(
    overshoot(await tokenHistory(fresh), { limit: 1_000, perMs: 1_000, burst: 1_000 }),
  ).toBeLessThanOrEqual(0);
});

test("kill -9 of a process that enqueues to a full queue leaves nothing behind", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const tenant = { maxDepth: 1, policy: "defer", deferBy: "1h" } as const;
  const admission = { maxDepth: 5, policy: "defer", deferBy: "1h", tenant } as const;
  await stint.queueSettings.set("deferring", { admission }, { reason: "test" });
  await stint.enqueue(deferred, {}, { tenant: "acme" });
  for (let round = 0; round < 2; round++) {
    const doomed = await startWorkerProcess(fresh, {
      program: builtProgram(program),
      env: { STINT_TEST_ENQUEUE: "1" },
    });
    // An enqueue waits for no open transaction.
    const { id } = await stint.enqueue(deferred, {}, { tenant: `t${round}` });
    expect((await stint.get(id))?.state).toBe("ready");
    doomed.kill("SIGKILL");
    await doomed.ended;
  }
  await until(
    async () =>
      (await stint.admission("deferring", { tenant: "acme" })).tenant?.depth === 1 &&
      (await fresh.sql("select from stint.admitted")).length === 3,
    { message: "the killed transactions are rolled back" },
  );
  expect((await stint.get(await stint.enqueue(deferred, {}, { tenant: "acme" })))?.state).toBe("scheduled");
  expect(await fresh.sql("select status, count::integer as count from stint.enqueues")).toEqual([
    { status: "deferred-full", count: 1 },
  ]);
});
