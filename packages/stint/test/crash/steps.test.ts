import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineJob, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab, slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import {
  builtProgram,
  expireLeases,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

type Script = { script: readonly string[]; at?: string; with?: NodeJS.Signals; epoch?: number };
const scriptedIn = (queue: string) =>
  defineJob("scripted-steps", { queue, payload: typed<Script>(), result: typed<unknown[]>() });
const scripted = scriptedIn("default");

const stepsProgram = fileURLToPath(new URL("../fixtures/steps-process.mjs", import.meta.url));
/** Leases are long: only a test ends them. */
const start = async (fresh: Fresh, pools: Record<string, number> = { default: 4 }): Promise<WorkerProcess> =>
  await startWorkerProcess(fresh, {
    program: builtProgram(stepsProgram),
    worker: { lease: "1h", maxCrashes: 100, pools },
  });

const script = ["step a", "sleep 5", "signal go", "step b"];
/** Where a process dies. A process for each takes half a second of CPU, so `npm test` has one of each sort. */
const boundaries = slice(
  [
    "before step a",
    "in a",
    "after step a",
    "before sleep 5",
    "after sleep 5",
    "before signal go",
    "after signal go",
    "before step b",
    "in b",
    "after step b",
    "ended",
  ],
  (at) => ["in a", "before sleep 5", "after signal go"].includes(at),
);

/** How often each step of this job ran in these processes. */
function runs(job: string, ...workers: readonly WorkerProcess[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { event, id, step = "" } of workers.flatMap(({ reports }) => reports))
    if (event === "ran" && id === job) counts[step] = (counts[step] ?? 0) + 1;
  return counts;
}

/** The attempt that reaches a point of the script: each sleep and wait ends one. The signal is there before the first. */
const epochOf = (point: string): number =>
  ["after sleep 5", "before signal go", "after signal go", "before step b", "in b", "after step b"].includes(
    point,
  )
    ? 2
    : 1;

type Victim = { at: string; id: string; worker: WorkerProcess };

/** One process for each boundary, which kills or stops itself there. Its job is in a queue that no other worker serves yet. */
async function victims(fresh: Fresh, points: readonly string[], signal: NodeJS.Signals): Promise<Victim[]> {
  const stint = fresh.client();
  const begun: Victim[] = [];
  for (const [index, at] of points.entries()) {
    const payload = { script, at, with: signal, epoch: epochOf(at) };
    const queue = `q${index}`;
    const { id } = await stint.enqueue(scriptedIn(queue), payload, { delay: "1h" });
    await stint.signal(id, "go", { by: "ann" });
    begun.push({ at, id, worker: await start(fresh, { default: 1, [queue]: 1 }) });
    await stint.runNow(id);
  }
  return begun;
}

test("a kill -9 at any boundary loses nothing and repeats no finished step", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const killed = await victims(fresh, boundaries, "SIGKILL");
  for (const { worker } of killed) expect(await worker.ended).toEqual({ code: null, signal: "SIGKILL" });

  const survivor = await start(fresh, { default: 1, "q*": 4 });
  await expireLeases(fresh);
  for (const { at, id, worker } of killed) {
    expect([at, await stint.waitFor(id, { timeout: "60s" })]).toEqual([
      at,
      ["a", "slept", { by: "ann" }, "b"],
    ]);
    const twice = /^in (.)$/.exec(at)?.[1];
    expect([at, runs(id, worker, survivor)]).toEqual([
      at,
      { a: twice === "a" ? 2 : 1, b: twice === "b" ? 2 : 1 },
    ]);
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 1 });
  }
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
});

test("a worker paused by SIGSTOP at a boundary writes nothing after a rescue", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const points = slice(
    ["in a", "after step a", "before sleep 5", "before signal go", "after step b", "ended"],
    (at) => ["in a", "after step b"].includes(at),
  );
  const paused = await victims(fresh, points, "SIGSTOP");
  for (const { worker } of paused) await worker.reported("reached");

  const survivor = await start(fresh, { default: 1, "q*": 4 });
  await expireLeases(fresh);
  for (const { at, id, worker } of paused) {
    expect([at, await stint.waitFor(id, { timeout: "60s" })]).toEqual([
      at,
      ["a", "slept", { by: "ann" }, "b"],
    ]);
    const remembered = `select * from stint.step where job_id = $1 order by seq`;
    const steps = await fresh.sql(remembered, [id]);
    worker.kill("SIGCONT");
    await worker.reported("leaseLost", id);

    expect(steps.map(({ name }) => name)).toEqual(["a", "sleep", "signal go", "b"]);
    expect(await fresh.sql(remembered, [id])).toEqual(steps);
    expect(runs(id, survivor)["b"]).toBe(at === "after step b" ? undefined : 1);
  }
});

test("jobs whose workers are killed at any time receive every signal once, in order", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const count = inLab ? 60 : 8;
  const rounds = Array.from({ length: inLab ? 24 : 2 }, (_, n) => n + 1);
  const long = rounds.flatMap((n) => [`step s${n}`, "signal go", "sleep 3"]);
  const jobs = await Promise.all(
    Array.from({ length: count }, async () => await stint.enqueue(scripted, { script: long })),
  );
  let workers = [await start(fresh), await start(fresh)];
  let paused: WorkerProcess | undefined;
  for (const n of rounds) {
    for (const job of jobs) await stint.signal(job, "go", n);
    const [victim, ...others] = workers;
    // In the lab, every second one is paused, and continues when its jobs belong to others.
    const isPaused = inLab && n % 2 === 0;
    victim?.kill(isPaused ? "SIGSTOP" : "SIGKILL");
    if (!isPaused) await victim?.ended;
    workers = [...others, await start(fresh)];
    await expireDead(fresh, workers);
    paused?.kill("SIGCONT");
    paused = isPaused ? victim : undefined;
  }
  paused?.kill("SIGCONT");
  await until(
    async () => {
      await expireDead(fresh, workers);
      return (await fresh.sql(`select from stint.job`)).length === 0;
    },
    { message: "all jobs have ended" },
  );

  const expected = rounds.flatMap((n) => [`s${n}`, n, "slept"]);
  for (const job of jobs) expect(await stint.waitFor(job)).toEqual(expected);
  expect(await fresh.sql(`select from stint.signal`)).toEqual([]);
});

/** Ends the leases of the workers that were killed, and of no other. */
async function expireDead(fresh: Fresh, alive: readonly WorkerProcess[]): Promise<void> {
  const ids = alive.map(({ reports }) => reports.find(({ event }) => event === "started")?.worker);
  await fresh.sql(
    `update stint.job set lease_until = clock_timestamp() where state = 'running' and worker <> all ($1)`,
    [ids],
  );
}
