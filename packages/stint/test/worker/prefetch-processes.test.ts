import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { testFolder } from "../support/folder.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import {
  bystander,
  scripted,
  entered,
  expireLeases,
  startWorkerProcess,
  type Action,
  type WorkerProcess,
} from "../support/worker-process.ts";
import { inLab } from "../support/lab.ts";

const slots = 4;
const pools = { default: slots };
const hangs = Array.from({ length: slots }, (): Action => ({ do: "hang" }));

/** Jobs enough to learn to claim ahead by, then these, then more than one claim brings. */
async function enqueueAmong(fresh: Fresh, actions: readonly Action[]): Promise<string[]> {
  const pass = (length: number) => Array.from({ length }, () => entry(bystander, { do: "succeed" }));
  const jobs = await fresh
    .client()
    .enqueueMany([...pass(800), ...actions.map((what) => entry(scripted, what)), ...pass(700)]);
  return jobs.slice(800, 800 + actions.length).map(({ id }) => id);
}

/** Jobs this worker claimed and never began, so far. */
function waiting({ reports }: WorkerProcess): string[] {
  const begun = new Set(reports.filter(({ event }) => event === "entered").map(({ id }) => id));
  return reports.flatMap(({ jobs = [] }) => jobs.map(({ id }) => id)).filter((id) => !begun.has(id));
}

/** Every slot is held by one of these, and others wait for it. */
async function untilJobsWait(worker: WorkerProcess, holding: readonly string[]): Promise<void> {
  await Promise.all(holding.map((id) => worker.reported("entered", id)));
  await until(() => waiting(worker).length > 0, { message: "jobs wait behind those that hold the slots" });
}

async function untilAllEnded(fresh: Fresh): Promise<void> {
  await until(async () => (await fresh.sql("select from stint.job limit 1")).length === 0, {
    message: "every job has ended",
  });
}

async function ends(fresh: Fresh): Promise<Record<string, unknown>[]> {
  return await fresh.sql("select state, count(*)::integer from stint.history group by 1 order by 1");
}

test.runIf(inLab)("two processes with long jobs hold no more jobs than slots", async () => {
  const fresh = await freshSchema();
  const start = () => startWorkerProcess(fresh, { worker: { pools: { default: 10 } } });
  const workers = await Promise.all([start(), start()]);
  await fresh.client().enqueueMany(Array.from({ length: 60 }, () => entry(scripted, { do: "hang" })));
  await until(() => workers.every((worker) => entered(worker).length === 10), { message: "both are full" });
  const finished = new Set<string>();
  await until(
    () => {
      for (const worker of workers) {
        for (const { event, id } of worker.reports) {
          if (event !== "entered" || finished.has(id!)) continue;
          finished.add(id!);
          // Longer than a pool ever prefetches, at any latency of the server.
          setTimeout(() => worker.go(id!), 300);
        }
      }
      return finished.size === 60;
    },
    { message: "all were begun" },
  );
  await untilAllEnded(fresh);

  for (const worker of workers) {
    let here = 0;
    for (const { event, jobs } of worker.reports) {
      here += event === "claimed" ? jobs!.length : event === "ran" ? -1 : 0;
      expect(here).toBeLessThanOrEqual(10);
    }
  }
});

test("jobs that wait behind a blocked event loop are released and run elsewhere", async () => {
  const fresh = await freshSchema();
  const second = await startWorkerProcess(fresh, { worker: { pools, lease: "10s" } });
  const holding = await fresh.client().enqueueMany(hangs.map((what) => entry(scripted, what)));
  await Promise.all(holding.map(({ id }) => second.reported("entered", id)));
  const first = await startWorkerProcess(fresh, { worker: { pools, lease: "10s", prefetch: "5s" } });
  const file = join(await testFolder(), "go");
  const held = await enqueueAmong(fresh, [{ do: "block-until", file }, ...hangs.slice(1)]);
  const [blocking] = held;
  await untilJobsWait(first, held);
  first.go(blocking!);
  await first.reported("blocking", blocking);
  const ids = waiting(first);
  expect(ids.length).toBeGreaterThan(0);

  for (const { id } of holding) second.go(id);
  await until(() => ids.every((id) => ranIn(second).has(id)), { message: "the other worker runs them" });
  expect(ranIn(first).has(blocking!)).toBe(false);
  await writeFile(file, "");
  for (const id of held) first.go(id);
  await first.reported("settled", blocking);
  await untilAllEnded(fresh);

  // Each was claimed anew: none began under the claim that had brought it here.
  const [history] = await fresh.sql(
    `select min(epoch)::integer >= 2 as anew, max(attempts) as attempts, max(crashes) as crashes, max(interruptions) as interruptions
     from stint.history where id = any ($1)`,
    [ids],
  );
  expect(history).toEqual({ anew: true, attempts: 1, crashes: 0, interruptions: 0 });
});

test("jobs that waited in a killed worker run elsewhere, and none is quarantined", async () => {
  const fresh = await freshSchema();
  const first = await startWorkerProcess(fresh, { worker: { pools, prefetch: "1h" } });
  const holding = await enqueueAmong(fresh, hangs);
  await untilJobsWait(first, holding);
  first.kill("SIGKILL");
  await first.ended;
  await expireLeases(fresh);
  const ids = waiting(first);

  const second = await startWorkerProcess(fresh, { worker: { pools } });
  await Promise.all(holding.map((id) => second.reported("entered", id)));
  for (const id of holding) second.go(id);
  await untilAllEnded(fresh);

  expect(await ends(fresh)).toEqual([{ state: "succeeded", count: 1_500 + slots }]);
  const runs = entered(first, second);
  expect(new Set(runs).size).toBe(runs.length);
  const again = new Set(entered(second).map(jobOfRun));
  expect(ids.filter((id) => !again.has(id))).toEqual([]);
  expect(second.reports.filter(({ event, state }) => event === "rescued" && state !== "ready")).toEqual([]);
});

test.runIf(inLab)("a job that kills its workers quarantines no more jobs than ran beside it", async () => {
  const fresh = await freshSchema();
  const [poison] = await enqueueAmong(fresh, [{ do: "die" }]);
  const lives: WorkerProcess[] = [];
  const ended = async (): Promise<boolean> => (await fresh.sql("select from stint.job limit 1")).length === 0;
  while (!(await ended())) {
    const life = await startWorkerProcess(fresh, { worker: { pools } });
    lives.push(life);
    let alive = true;
    void life.ended.then(() => (alive = false));
    await until(async () => !alive || (await ended()), {
      message: "the worker dies, or everything has ended",
    });
  }

  const rescued = lives.flatMap(({ reports }) => reports.filter(({ event }) => event === "rescued"));
  const suspects = new Set(rescued.filter(({ state }) => state === "parked").map((report) => jobOf(report)));
  expect(rescued.length).toBeGreaterThan(2 * slots);
  expect(suspects.size).toBeLessThanOrEqual(slots);
  expect(suspects).toContain(poison);
  expect(await ends(fresh)).toEqual([
    { state: "succeeded", count: 1_500 },
    { state: "dead", count: 1 },
  ]);
});

test.runIf(inLab)("a busy worker that claims it with many crash suspects quarantines no more", async () => {
  const fresh = await freshSchema();
  const options = { delay: "1h", priority: -1 };
  await fresh
    .client()
    .enqueueMany([
      entry(scripted, { do: "die" }, options),
      ...Array.from({ length: 300 }, () => entry(bystander, { do: "succeed" }, options)),
    ]);
  await fresh.sql("update stint.job set crashes = 1");
  const first = await startWorkerProcess(fresh, { worker: { pools } });
  await fresh.client().enqueueMany(Array.from({ length: 5_000 }, () => entry(bystander, { do: "succeed" })));
  await until(() => entered(first).length > 500, { message: "it is in full swing" });
  await fresh.sql("update stint.job set state = 'ready', run_at = now() where state = 'scheduled'");
  await first.ended;

  const second = await startWorkerProcess(fresh, { kinds: ["nothing"] });
  await until(async () => (await fresh.sql("select from stint.job where state = 'running'")).length === 0, {
    message: "what it held was taken back",
  });
  const suspects = await fresh.sql("select from stint.job where state = 'parked'");
  await second.reported("rescued");
  expect(suspects.length).toBeGreaterThan(0);
  expect(suspects.length).toBeLessThanOrEqual(slots);
});

test.runIf(inLab)("SIGTERM while jobs wait releases them, and loses nothing", async () => {
  const fresh = await freshSchema();
  const worker = await startWorkerProcess(fresh, { worker: { pools, prefetch: "1h" } });
  const holding = await enqueueAmong(fresh, hangs);
  await untilJobsWait(worker, holding);
  worker.kill("SIGTERM");
  await worker.reported("stopping");
  for (const id of holding) worker.go(id);
  const { released } = await worker.reported("stopped");

  expect(released).toBeGreaterThan(0);
  expect(released).toBe(waiting(worker).length);
  const runs = entered(worker).length;
  expect(await ends(fresh)).toEqual([{ state: "succeeded", count: runs }]);
  expect(
    await fresh.sql(
      "select state, attempts, crashes, interruptions, count(*)::integer from stint.job group by 1, 2, 3, 4",
    ),
  ).toEqual([{ state: "ready", attempts: 0, crashes: 0, interruptions: 0, count: 1_500 + slots - runs }]);
});

function ranIn({ reports }: WorkerProcess): Set<string> {
  return new Set(reports.filter(({ event }) => event === "ran").map(({ id }) => id!));
}

function jobOfRun(run: string): string {
  return run.slice(0, run.indexOf("/"));
}

function jobOf(report: object): string {
  return (report as { job: string }).job;
}
