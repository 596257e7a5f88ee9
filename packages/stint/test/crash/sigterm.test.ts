import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { scripted, entered, startWorkerProcess } from "../support/worker-process.ts";

const exited = { code: 0, signal: null };

test("SIGTERM under load: jobs that end in time settle, the rest are released unspent", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorkerProcess(fresh, {
    worker: { pools: { default: 20 }, drain: "10s", abort: "50s" },
  });
  await stint.enqueueMany(Array.from({ length: 60 }, () => entry(scripted, { do: "hang" })));
  await until(() => entered(worker).length === 20, { message: "all slots are taken" });
  const running = entered(worker).map((attempt) => attempt.split("/")[0]!);

  worker.kill("SIGTERM");
  await worker.reported("stopping");
  for (const id of running.slice(0, 5)) worker.go(id);
  expect(await worker.ended).toEqual(exited);

  expect(worker.reports.at(-1)).toMatchObject({ event: "stopped", drained: 5, released: 15 });
  // Not the whole of `abort`: it ends when the last handler has reacted to its signal.
  expect(worker.reports.at(-1)!.ms).toBeLessThan(50_000);
  expect(worker.reports.filter(({ event }) => event === "aborted").map(({ reason }) => reason)).toEqual(
    Array.from({ length: 15 }, () => "StoppingError"),
  );
  expect(entered(worker)).toHaveLength(20);
  const live = await fresh.sql(
    "select state, attempts, crashes, interruptions, count(*)::integer from stint.job group by 1, 2, 3, 4 order by 4",
  );
  expect(live).toEqual([
    { state: "ready", attempts: 0, crashes: 0, interruptions: 0, count: 40 },
    { state: "ready", attempts: 0, crashes: 0, interruptions: 1, count: 15 },
  ]);
  expect(await fresh.sql("select state, attempts from stint.history")).toEqual(
    Array.from({ length: 5 }, () => ({ state: "succeeded", attempts: 1 })),
  );
  expect(await fresh.sql("select from stint.worker")).toEqual([]);
});

test("jobs that ignore their signal are released, and the process exits in time", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorkerProcess(fresh, { worker: { drain: 100, abort: 100 } });
  const { id } = await stint.enqueue(scripted, { do: "ignore" });
  await worker.reported("entered", id);

  worker.kill("SIGTERM");
  expect(await worker.ended).toEqual(exited);

  expect(worker.reports.at(-1)).toMatchObject({ event: "stopped", drained: 0, released: 1 });
  expect(await stint.get(id)).toMatchObject({ state: "ready", attempts: 0, crashes: 0, interruptions: 1 });
});

test("a second signal ends the drain at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorkerProcess(fresh, { worker: { drain: "50s", abort: "1s" } });
  const { id } = await stint.enqueue(scripted, { do: "hang" });
  await worker.reported("entered", id);

  worker.kill("SIGTERM");
  await worker.reported("stopping");
  worker.kill("SIGTERM");
  expect(await worker.ended).toEqual(exited);

  expect(worker.reports.at(-1)).toMatchObject({ event: "stopped", released: 1 });
  expect(worker.reports.at(-1)!.ms).toBeLessThan(50_000);
  expect(await stint.get(id)).toMatchObject({ state: "ready", attempts: 0, interruptions: 1 });
});
