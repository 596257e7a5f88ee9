import { expect, test } from "vitest";
import type { Stint } from "#stint/index.js";
import { PermanentError, defineJob, entry, handle, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { sessions } from "../sql/sessions.ts";

const first = defineJob("first", { payload: typed<object>(), result: typed<number>() });
const waits = defineJob("waits", { payload: typed<object>(), result: typed<number>() });

type Case = {
  /** Brings the first job to the state in which the action is allowed. */
  prepare?: (stint: Stint, id: string) => Promise<unknown>;
  act: (stint: Stint, id: string) => Promise<unknown>;
  /** The row that the action holds while it waits for the row of the second job. */
  held: string;
  becomes: string;
};

const cases: Record<string, Case> = {
  cancel: {
    act: (stint, id) => stint.cancel(id, { reason: "no more" }),
    held: `select from stint.job where id = $1 for update`,
    becomes: "cancelled",
  },
  complete: {
    act: (stint, id) => stint.complete(id, 7),
    held: `select from stint.job where id = $1 for update`,
    becomes: "succeeded",
  },
  replay: {
    prepare: async (stint, id) => {
      const fail = handle(first, () => {
        throw new PermanentError("refused");
      });
      const worker = stint.worker({ pools: { default: 1 }, handlers: [fail] });
      await worker.start();
      await expect(stint.waitFor(id, { timeout: "60s" })).rejects.toThrow("refused");
      await worker.stop();
    },
    act: (stint, id) => stint.replay(id, { reason: "again" }),
    held: `select from stint.history where id = $1 for update`,
    becomes: "ready",
  },
  "flows.cancel": {
    act: (stint, id) => stint.flows.cancel(id),
    held: `select from stint.flow where id = $1 for update`,
    becomes: "cancelled",
  },
};

/** Resolves when this many sessions of the test's schema wait for a lock of another session. */
async function waiting(fresh: Fresh, pid: number): Promise<void> {
  await until(
    async () =>
      (await fresh.sql(`select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))`, [pid])).length >
      0,
    { message: `a session waits for session ${pid}` },
  );
}

test.each(Object.entries(cases))("%s is sent again after a deadlock with a dependent", async (_, one) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // The dependent of another flow: a cancel of the whole flow must wait for its row, too.
  const flow = await stint.flow("f", { first: entry(first, {}) });
  const { id } = flow.jobs.first;
  const other = await stint.flow("g", { waits: entry(waits, {}, { after: [id] }) });
  await one.prepare?.(stint, id);
  const [session] = await sessions(fresh, 1);
  const pid = ((await session!.client.query(`select pg_backend_pid() as pid`)).rows[0] as { pid: number })
    .pid;
  // The session never notices the deadlock, so that Postgres fails the statement of the action.
  await session!.client.query(`set deadlock_timeout = '10min'`);
  await session!.begin();
  await session!.client.query(`select from "${fresh.schema}".job where id = $1 for update`, [
    other.jobs.waits.id,
  ]);

  const acting = one.act(stint, id);
  await waiting(fresh, pid);
  const target = one.held.includes("flow") ? flow.id : id;
  await session!.client.query(one.held.replace("stint.", `"${fresh.schema}".`), [target]);
  await session!.commit();

  await acting;
  expect((await stint.get(id))?.state).toBe(one.becomes);
});

test("a job that waits for a completed job gets its result", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = await stint.enqueue(first, {});
  const waiting = await stint.enqueue(waits, {}, { after: [job] });
  await stint.complete(job, 7);
  const sum = handle(waits, async ({ results }) => (await results(first))[0]?.result ?? 0);
  await stint.worker({ pools: { default: 1 }, handlers: [sum] }).start();

  expect(await stint.waitFor(waiting, { timeout: "60s" })).toBe(7);
});
