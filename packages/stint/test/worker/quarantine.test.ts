import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { startWorker, type Watched } from "../support/watch.ts";

const busy = defineJob("busy", { payload: typed<object>() });
const suspect = defineJob("suspect", { payload: typed<object>() });

/** A job that has waited in quarantine for an hour. */
async function suspected(fresh: Fresh): Promise<string> {
  const { id } = await fresh.client().enqueue(suspect, {}, { delay: "1h" });
  await fresh.sql(
    `update stint.job
     set state = 'parked', park_reason = 'quarantine', crashes = 2, run_at = now() - interval '1 hour'
     where id = $1`,
    [id],
  );
  return id;
}

type Scene = Watched & {
  fresh: Fresh;
  id: string;
  log: string[];
  endBusy: () => void;
  endSuspect: () => void;
};

/** A worker that is busy, while a suspect waits to be run alone. */
async function busyBesideSuspect(): Promise<Scene> {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const log: string[] = [];
  const [busyMayEnd, suspectMayEnd] = [gate(), gate()];
  const id = await suspected(fresh);
  await stint.enqueue(busy, {});
  const watched = await startWorker(stint, {
    pools: { default: 4 },
    handlers: [
      handle(busy, async () => {
        log.push("busy begins");
        await busyMayEnd.opened;
        log.push("busy ends");
      }),
      handle(suspect, async ({ signal }) => {
        log.push("suspect begins");
        await Promise.race([
          suspectMayEnd.opened,
          new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason as Error))),
        ]);
        log.push("suspect ends");
      }),
    ],
  });
  await watched.seen("claimed", ({ jobs }) => jobs.some((job) => job.kind === "busy"));
  return {
    ...watched,
    fresh,
    id,
    log,
    endBusy: () => busyMayEnd.open(),
    endSuspect: () => suspectMayEnd.open(),
  };
}

test("a quarantined job runs only when nothing else does, and nothing beside it", async () => {
  const { fresh, id, log, seen, endBusy, endSuspect } = await busyBesideSuspect();
  const stint = fresh.client();
  expect(await stint.get(id)).toMatchObject({ state: "parked", epoch: 0 });
  endBusy();
  await seen("claimed", ({ jobs }) => jobs.some((job) => job.id === id));
  const next = await stint.enqueue(busy, {});
  endSuspect();
  await stint.waitFor(next.id, { timeout: "60s" });

  expect(log).toEqual([
    "busy begins",
    "busy ends",
    "suspect begins",
    "suspect ends",
    "busy begins",
    "busy ends",
  ]);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 2, epoch: 1 });
});

test("a stop leaves a quarantined job that waits as it was", async () => {
  const { fresh, id, log, worker } = await busyBesideSuspect();
  await worker.stop({ drain: 100, abort: 100 });

  expect(log).toEqual(["busy begins"]);
  expect(await fresh.client().get(id)).toMatchObject({
    state: "parked",
    parkReason: "quarantine",
    epoch: 0,
    interruptions: 0,
  });
});

test("a quarantined job released while it runs stays quarantined, unspent", async () => {
  const { fresh, id, worker, seen, endBusy } = await busyBesideSuspect();
  endBusy();
  await seen("claimed", ({ jobs }) => jobs.some((job) => job.id === id));
  await worker.stop({ drain: 0 });

  const job = await fresh.client().get(id);
  expect(job).toMatchObject({
    state: "parked",
    parkReason: "quarantine",
    attempts: 0,
    crashes: 2,
    interruptions: 1,
  });
});

test("a quarantined job whose claim response is lost is found and runs", async () => {
  const fresh = await freshSchema();
  const id = await suspected(fresh);
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url, prepare: false, wake: "none" });
  const swallowed = proxy.cutAt("/* stint:claim-quarantined */", "unanswered");
  const runs: number[] = [];
  await startWorker(stint, { handlers: [handle(suspect, ({ fence }) => void runs.push(fence.epoch))] });
  await swallowed;
  await stint.waitFor(id, { timeout: "60s" });

  expect(runs).toEqual([1]);
  expect(await fresh.client().get(id)).toMatchObject({ state: "succeeded", crashes: 2 });
});
