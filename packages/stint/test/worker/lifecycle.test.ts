import { expect, test } from "vitest";
import { defineJob, handle, InvalidOptionError, typed } from "#stint/index.js";
import { passTime } from "../support/database-time.ts";
import { freshSchema } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { gate } from "../support/gate.ts";
import { abortOf, startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });
const hang = defineJob("hang", { payload: typed<object>() });
const quiet = { pools: { default: 2 }, signals: false, handlers: [handle(work, () => undefined)] } as const;

/** What keeps this process alive, by name: threads, sockets, timers. */
function handles(): string[] {
  return process.getActiveResourcesInfo().filter((name) => /MessagePort|TCP|Worker/.test(name));
}

test("repeated starts and stops leave no thread, connection, row or lease behind", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(work, {});
  await fresh.sql("select 1");
  const before = handles().length;
  for (let round = 0; round < (inLab ? 15 : 5); round++) {
    const worker = stint.worker(quiet);
    await stint.enqueue(work, {});
    await worker.start();
    await worker.stop();
  }

  expect(await fresh.sql("select from stint.worker")).toEqual([]);
  expect(await fresh.sql("select from stint.job where lease_id is not null")).toEqual([]);
  expect(await fresh.sql("select from stint.jobs where crashes > 0")).toEqual([]);
  const open = async (): Promise<unknown[]> =>
    await fresh.sql(
      "select from pg_stat_activity where application_name ~ '^stint (leases|wakes)' and query like '%' || $1 || '%'",
      [fresh.schema],
    );
  await until(async () => (await open()).length === 0, { message: "their connections are closed" });
  // The client's own pool of two may have grown meanwhile.
  await until(() => handles().length <= before + 2, { message: "nothing more keeps the process alive" });
});

test("many workers of one client stop together", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const workers = Array.from({ length: 5 }, () => stint.worker(quiet));
  await Promise.all(workers.map((worker) => worker.start()));
  expect(await stint.workers()).toHaveLength(5);
  await Promise.all(workers.map((worker) => worker.stop()));

  expect(await stint.workers()).toEqual([]);
});

test("stop is safe before start, during start and twice; a stopped worker cannot start", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const never = stint.worker(quiet);
  expect(await never.stop()).toMatchObject({ drained: 0, released: 0 });
  await expect(never.start()).rejects.toThrow(InvalidOptionError);

  const hasty = stint.worker(quiet);
  const starting = hasty.start();
  const [first, second] = await Promise.all([hasty.stop(), hasty.stop(), starting]);
  expect(second).toEqual(first);

  expect(await fresh.sql("select from stint.worker")).toEqual([]);
});

test("concurrent start calls start one worker", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = stint.worker(quiet);
  let started = 0;
  worker.on("started", () => (started += 1));
  await Promise.all([worker.start(), worker.start()]);
  await worker.stop();

  expect(started).toBe(1);
});

test("start throws if the database cannot be reached, and can be called again", async () => {
  const fresh = await freshSchema();
  const away = fresh.client({ database: "postgres://nobody@127.0.0.1:1/none" });
  const worker = away.worker(quiet);
  await expect(worker.start()).rejects.toMatchObject({ code: "DATABASE_UNAVAILABLE" });
  await expect(worker.start()).rejects.toMatchObject({ code: "DATABASE_UNAVAILABLE" });
  await worker.stop();
});

test("stop drains, aborts the rest, and reports how many were which", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const end = gate();
  let running = 0;
  const { worker } = await startWorker(stint, {
    pools: { default: 2 },
    handlers: [
      handle(work, async () => {
        running += 1;
        await end.opened;
      }),
      handle(hang, async ({ signal }) => {
        running += 1;
        await abortOf(signal);
        throw signal.reason;
      }),
    ],
  });
  const [ends, hangs] = await Promise.all([stint.enqueue(work, {}), stint.enqueue(hang, {})]);
  await until(() => running === 2, { message: "both run" });
  const stopped = worker.stop({ drain: 500, abort: "5s" });
  const late = await stint.enqueue(work, {});
  end.open();

  expect(await stopped).toMatchObject({ drained: 1, released: 1 });
  expect(await stint.get(ends.id)).toMatchObject({ state: "succeeded" });
  expect(await stint.get(hangs.id)).toMatchObject({ state: "ready", attempts: 0, interruptions: 1 });
  expect(await stint.get(late.id)).toMatchObject({ state: "ready", epoch: 0 });
});

test("a handler that uses all of its abort time keeps its job until then", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const running = gate();
  const reported = gate();
  const end = gate();
  const { worker } = await startWorker(stint, {
    // The worker's own times are shorter than those given to stop.
    abort: 1,
    handlers: [
      handle(hang, async ({ signal }) => {
        running.open();
        await abortOf(signal);
        reported.open();
        await end.opened;
      }),
    ],
  });
  const { id } = await stint.enqueue(hang, {});
  await running.opened;
  const stopped = worker.stop({ drain: 0, abort: "20s" });
  await reported.opened;
  expect(await stint.get(id)).toMatchObject({ state: "running" });
  await passTime(fresh, 100);
  expect(await stint.get(id)).toMatchObject({ state: "running" });
  end.open();

  expect(await stopped).toMatchObject({ drained: 1, released: 0 });
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1 });
});
