import { afterEach, expect, test } from "vitest";
import { defineJob, entry, handle, steps, typed } from "#stint/index.js";
import type { Worker } from "#stint/worker/worker.js";
import { adminClient } from "../support/database.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { inLab, slice } from "../support/lab.ts";

const stream = defineJob("stream", { payload: typed<object>() });
const wanted = defineJob("wanted", {
  payload: typed<{ fail?: true }>(),
  backoff: steps(1),
});

type Busy = {
  readonly worker: Worker;
  /** Runs of wanted jobs, `id/attempt`. */
  readonly ran: readonly string[];
  /** How many of the stream have run. */
  readonly streamed: () => number;
  /** How often it claimed only what comes after its floors. */
  readonly onward: () => number;
  /** Waits until this wanted job has run, and checks that the worker was busy with others all the while. */
  readonly runs: (id: string) => Promise<void>;
};

let stopStream: (() => Promise<void>) | undefined;
afterEach(async () => {
  await stopStream?.();
  stopStream = undefined;
});

/** A worker that a stream of jobs keeps busy: there is always one after its floor. */
async function startBusy(fresh: Fresh): Promise<Busy> {
  const proxy = await startCutProxy(fresh.url);
  const ran: string[] = [];
  let streamed = 0;
  let sent = 0;
  let room = gate();
  const { worker } = await startWorker(fresh.client({ database: proxy.url }), {
    pools: { default: 2 },
    // Without polls: the worker finds jobs only by its own claims.
    poll: "1h",
    rescueEvery: "1h",
    handlers: [
      handle(stream, () => {
        streamed += 1;
        room.open();
      }),
      handle(wanted, ({ id, attempt, payload }) => {
        ran.push(`${id}/${attempt}`);
        if (payload.fail === true && attempt === 1) throw new Error("once");
      }),
    ],
  });

  const producer = fresh.client();
  const ending = new AbortController();
  const flow = (async () => {
    while (!ending.signal.aborted) {
      if (sent - streamed > 300) {
        room = gate();
        await room.opened;
        continue;
      }
      sent += 100;
      await producer.enqueueMany(Array.from({ length: 100 }, () => entry(stream, {})));
    }
  })();
  stopStream = async () => {
    ending.abort();
    room.open();
    await flow;
  };

  const onward = (): number => proxy.count(`${fresh.schema}.claim-onward`);
  await until(() => onward() > 5 && streamed > 200, { message: "the worker is busy" });
  return {
    worker,
    ran,
    streamed: () => streamed,
    onward,
    async runs(id) {
      const before = { streamed, onward: onward() };
      await until(() => ran.some((run) => run.startsWith(id)), {
        message: `wanted job ${id} runs`,
      });
      await until(() => streamed > before.streamed && onward() > before.onward, {
        message: "the stream continues",
      });
    },
  };
}

test("a job committed late, with a time before the floor, is claimed", async () => {
  const fresh = await freshSchema();
  const client = await adminClient(fresh.url);
  await client.query("begin");
  const { runs } = await startBusy(fresh);
  await client.query(
    `insert into "${fresh.schema}".job (id, kind, queue, state, run_at, created_at, payload)
     values ('00000000-0000-7000-8000-000000000001', 'wanted', 'default', 'ready', now() - interval '1 hour', now(), '{}')`,
  );
  await client.query("commit");
  await client.end();
  await runs("00000000-0000-7000-8000-000000000001");
  expect(await fresh.client().get("00000000-0000-7000-8000-000000000001")).toMatchObject({ kind: "wanted" });
});

test.runIf(inLab)("a retried job is claimed among the others", async () => {
  const fresh = await freshSchema();
  const { ran } = await startBusy(fresh);
  const { id } = await fresh.client().enqueue(wanted, { fail: true });
  await until(() => ran.includes(`${id}/2`), { message: "it runs again" });
  expect(ran).toEqual([`${id}/1`, `${id}/2`]);
});

test("a job that another worker released is claimed, though it is before the floor", async () => {
  const fresh = await freshSchema();
  const held = gate();
  const other = await startWorker(fresh.client(), {
    pools: { default: 1 },
    handlers: [
      handle(wanted, async ({ signal }) => {
        held.open();
        await new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
        });
      }),
    ],
  });
  const { id } = await fresh.client().enqueue(wanted, {});
  await held.opened;
  const { runs, ran } = await startBusy(fresh);
  await other.worker.stop({ drain: 0 });
  await runs(id);
  expect(ran).toEqual([`${id}/1`]);
});

test.each(slice([-7, 7], (priority) => priority < 0))(
  "a job of a new priority, %d, is claimed in its turn",
  async (priority) => {
    const fresh = await freshSchema();
    const { runs, ran } = await startBusy(fresh);
    const { id } = await fresh.client().enqueue(wanted, {}, { priority });
    // Less urgent than the stream, it may wait until that has a moment's rest.
    if (priority > 0) await stopStream?.();
    if (priority > 0) await until(() => ran.length > 0, { message: "it runs" });
    else await runs(id);
    expect(ran).toEqual([`${id}/1`]);
  },
);

test("many jobs before the floor are claimed without a sweep for each claim", async () => {
  const fresh = await freshSchema();
  const { ran, onward } = await startBusy(fresh);
  await stopStream?.();
  await until(async () => (await fresh.sql("select from stint.job limit 1")).length === 0, {
    message: "the stream has run out",
  });
  const before = onward();
  await fresh
    .client()
    .enqueueMany(
      Array.from({ length: 3_000 }, () => entry(wanted, {}, { runAt: new Date(Date.now() - 3_600_000) })),
    );
  await until(() => ran.length === 3_000, { message: "they have run" });
  expect(onward() - before).toBeGreaterThan(0);
});
