import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, entry, steps, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { abortOf, startWorker } from "../support/watch.ts";

const work = defineJob("work", {
  payload: typed<{ n: number }>(),
  result: typed<number>(),
  backoff: steps(1),
});
const hang = defineJob("hang", { payload: typed<object>() });

test.each([{ wake: "none" }, { prepare: false }, { wake: "none", prepare: false }] as const)(
  "with %o jobs of other clients, delays, retries and cancels work",
  async (options) => {
    const fresh = await freshSchema();
    const stint = fresh.client(options);
    const running = gate();
    const aborted = gate();
    const { worker } = await startWorker(stint, {
      lease: "1s",
      handlers: [
        handle(work, ({ payload, attempt }) => {
          if (attempt === 1) throw new Error("once");
          return payload.n * 2;
        }),
        handle(hang, async ({ signal }) => {
          running.open();
          await abortOf(signal);
          aborted.open();
          throw signal.reason;
        }),
      ],
    });
    // Another client, so that no wake is passed on within the process.
    const other = fresh.client(options);
    const jobs = await other.enqueueMany(
      [1, 2, 3, 4].map((n) => entry(work, { n }, n > 2 ? { delay: 50 } : {})),
    );
    const results = await Promise.all(jobs.map(({ id }) => other.waitFor(id, { timeout: "60s" })));
    expect(results).toEqual([2, 4, 6, 8]);

    const { id } = await other.enqueue(hang, {});
    await running.opened;
    expect(await other.cancel(id)).toBe("asked");
    await aborted.opened;
    const listening = await fresh.sql("select from pg_stat_activity where application_name = $1", [
      `stint wakes ${worker.id}`.slice(0, 63),
    ]);
    await worker.stop();

    expect(await other.get(id)).toMatchObject({ state: "cancelled" });
    expect(listening).toHaveLength("wake" in options ? 0 : 1);
  },
);

test("a worker that loses its LISTEN connection polls at once, as one without wakes", async () => {
  const fresh = await freshSchema();
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(hang, () => undefined)],
  });
  onTestFinished(async () => void (await worker.stop({ drain: 0, abort: 0 })));
  await worker.start();
  const listener = `stint wakes ${worker.id}`.slice(0, 63);
  const backends = "from pg_stat_activity where application_name = $1";
  await until(async () => (await fresh.sql(`select ${backends}`, [listener])).length === 1, {
    message: "the worker listens",
  });
  await until(() => proxy.count("idle-check") >= 2, { message: "it has checked since it listens" });
  // It gets no connection to listen any more.
  let refused = 0;
  const refuse = async (): Promise<void> => {
    for (;;) {
      await proxy.cutAt(listener, "unsent");
      refused += 1;
    }
  };
  void refuse();
  const before = proxy.count("idle-check");
  await fresh.sql(`select pg_terminate_backend(pid) ${backends}`, [listener]);

  await until(() => refused > 1 && proxy.count("idle-check") >= before + 3, {
    message: "the worker polls every second",
    deadlineMs: 5_000,
  });
  expect(refused).toBeGreaterThan(1);
});
