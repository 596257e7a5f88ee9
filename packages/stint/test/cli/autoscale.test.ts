import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { Autoscaler } from "#stint/cli/processes/autoscaler.js";
import { Output } from "#stint/cli/output.js";
import { isAlive } from "#stint/embedded/processes.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { builtPackage } from "../support/built-package.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { untilEnded } from "../support/processes.ts";
import { until } from "../support/until.ts";
import { project, start, stint, type Running } from "./support.ts";

/** A job waits until there is a file with its name. */
const config = `
  import { existsSync } from "node:fs";
  import { setTimeout } from "node:timers/promises";
  import { defineJob, handle, typed } from "stint";
  const wait = defineJob("wait", { payload: typed<{ gate: string }>() });
  export default {
    worker: {
      pools: { default: 2 },
      drain: "5m",
      handlers: [
        handle(wait, async ({ payload, signal }) => {
          console.log("begun " + payload.gate);
          while (!existsSync(payload.gate)) await setTimeout(10, undefined, { signal });
        }),
      ],
    },
  };`;

/** Jobs count as a second of work, so each ready job wants a slot of its own. */
const soon = ["--target", "1s", "--every", "1s", "--cool-down", "1s", "--json"];

type Scaled = {
  fresh: Fresh;
  folder: string;
  run: Running;
  pids: () => Promise<number[]>;
  enqueue: (gates: readonly string[]) => Promise<void>;
  open: (gate: string) => Promise<void>;
  decisions: () => Record<string, unknown>[];
};

async function autoscale(flags: readonly string[], url?: string): Promise<Scaled> {
  const fresh = await freshSchema();
  const folder = await project({ "stint.config.ts": config }, await builtPackage());
  const run = start(["autoscale", "--schema", fresh.schema, ...soon, ...flags], {
    cwd: folder,
    env: { DATABASE_URL: url ?? fresh.url },
  });
  const pids = async (): Promise<number[]> =>
    (await fresh.sql("select pid from stint.worker where not draining order by pid")).map(({ pid }) =>
      Number(pid),
    );
  onTestFinished(async () => {
    for (const pid of await pids().catch(() => [])) if (isAlive(pid)) process.kill(pid, "SIGKILL");
  });
  return {
    fresh,
    folder,
    run,
    pids,
    enqueue: async (gates) => {
      await fresh.sql(
        `select stint.enqueue('wait', jsonb_build_object('gate', g), '{"queue": "default"}') from unnest($1::text[]) g`,
        [gates],
      );
    },
    open: async (gate) => await writeFile(join(folder, gate), ""),
    decisions: () =>
      run
        .text()
        .split("\n")
        .filter((line) => line.startsWith(`{"event":"decision"`))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

async function untilServing({ pids, run }: Scaled, count: number): Promise<number[]> {
  const live = async (): Promise<number[]> => (await pids()).filter((pid) => isAlive(pid));
  await until(async () => (await live()).length === count, { message: `${count} processes serve` }).catch(
    (error: Error) => {
      throw new Error(`${error.message}\n${run.text()}`, { cause: error });
    },
  );
  return await live();
}

test("processes are added for a backlog; those no longer needed drain their jobs", async () => {
  const scaled = await autoscale(["--max", "3"]);
  const { fresh, run, enqueue, open, decisions } = scaled;
  await untilServing(scaled, 1);
  const gates = ["a", "b", "c", "d", "e", "f"];
  await enqueue(gates);
  const before = await untilServing(scaled, 3);
  expect(decisions()).toContainEqual(
    expect.objectContaining({ action: "up", before: 1, processes: 3, pool: "default", limitedBy: "workers" }),
  );
  await run.wrote("begun ", 6);
  // One job continues, in a process that is stopped: the last one is stopped first.
  const [, kept] = /^\[3\] begun (\w)$/m.exec(run.text())!;
  for (const gate of gates) if (gate !== kept) await open(gate);
  await untilServing(scaled, 1);
  expect(decisions()).toContainEqual(expect.objectContaining({ action: "down", processes: 1 }));
  expect(await fresh.sql("select state from stint.job")).toEqual([{ state: "running" }]);
  await open(kept!);
  await until(() => before.filter((pid) => isAlive(pid)).length === 1, { message: "the others end" });

  run.process.kill("SIGTERM");
  const { code, stdout } = await run.ended;
  expect(code).toBe(0);
  expect(stdout).not.toContain("was killed");
  expect((await fresh.sql("select attempts from stint.history")).map((row) => row["attempts"])).toEqual(
    gates.map(() => 1),
  );
});

test("an outage keeps the processes; one killed meanwhile is started again", async () => {
  const proxy = await startCutProxy();
  const scaled = await autoscale(["--min", "2", "--max", "3"], proxy.url);
  const { run, decisions } = scaled;
  const [first, second] = await untilServing(scaled, 2);
  await run.wrote(`"event":"decision"`);
  proxy.down();
  await run.wrote(`"heldBy":"outage"`);
  expect(decisions().at(-1)).toMatchObject({ action: "keep", processes: 2 });
  process.kill(first!, "SIGKILL");
  await run.wrote(`"signal":"SIGKILL"`);
  expect(isAlive(second!)).toBe(true);
  proxy.up();
  await until(() => decisions().at(-1)?.["heldBy"] !== "outage", { message: "it decides again" });
  expect(await untilServing(scaled, 2)).toContain(second);

  // Killed itself, its processes drain.
  run.process.kill("SIGKILL");
  await until(async () => (await scaled.pids()).filter((pid) => isAlive(pid)).length === 0);
  await untilEnded(second!);
});

test("a dry run starts nothing, and a pause is named as the reason to add none", async () => {
  const scaled = await autoscale(["--max", "4", "--dry-run"]);
  const { fresh, run, enqueue, decisions } = scaled;
  await run.wrote(`"event":"decision"`);
  await enqueue(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
  await run.wrote(`"heldBy":"max"`);
  expect(decisions().at(-1)).toMatchObject({
    dryRun: true,
    action: "up",
    before: 0,
    processes: 4,
    wanted: 5,
    limitedBy: "workers",
  });
  await fresh.client().pauses.pause({ queue: "default" }, { reason: "maintenance" });
  await run.wrote(`"limitedBy":"pause"`);
  expect(decisions().at(-1)).toMatchObject({
    wanted: 0,
    heldBy: "min",
    name: "queue:default",
    reason: expect.stringContaining("Queue default is paused: more workers will not help") as string,
  });
  expect(await scaled.pids()).toEqual([]);
  run.process.kill("SIGTERM");
  expect((await run.ended).code).toBe(0);
});

test("workers of other machines do their part", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`select stint.enqueue('note', '{}', '{"queue": "notes"}') from generate_series(1, 600)`);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds)
     select id, 'h', 1, '1', '{"notes": 1}', '{note}' from unnest(array['here-1', 'there-1', 'there-2']) id`,
  );
  const inspector = fresh.client().inspector();
  const sizes: number[] = [];
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  onTestFinished(() => written.mockRestore());
  const stopping = new AbortController();
  await new Autoscaler({
    out: new Output({ json: true }),
    processes: {
      size: 1,
      workerIds: ["here-1"],
      resize: (size) => {
        sizes.push(size);
        stopping.abort();
      },
    },
    inspector,
    capacity: async () =>
      await inspector.capacity({
        pools: [{ name: "notes", queues: ["notes"], slots: 1 }],
        target: "100s",
      }),
    bounds: { min: 1, max: 10, coolDownMs: 60_000 },
    everyMs: 1_000,
  }).run(stopping.signal);
  // Six are needed, and two run elsewhere.
  expect(sizes).toEqual([4]);
});

test.each([
  [["--min", "0"], "--min: must be"],
  [["--max", "0"], "--max: must be"],
  [["--max", "10000"], "--max: must be"],
  [["--min", "3", "--max", "2"], "--max: must be at least --min (3), got 2"],
  [["--max", "NaN"], "It must be a whole number"],
  [["--min", "-1"], "--min: must be"],
  [["--every", "1ms"], "--every: must be"],
  [["--cool-down", "soon"], "--cool-down"],
  [["--target", "0"], "--target"],
  [["--rule", "depth>5"], "--rule must be such as"],
  [["--rule", "depth>5:+1,depth<9"], "depthBelow"],
  [["--pool", "defualt"], 'did you mean "default"?'],
  [["--drain", "x"], "--drain"],
])("autoscale refuses %j before anything is started", async (flags, message) => {
  const folder = await project({ "stint.config.ts": config }, await builtPackage());
  const refused = await stint(["autoscale", ...flags], {
    cwd: folder,
    env: { DATABASE_URL: "postgres://x@127.0.0.1:1/x" },
  });
  expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(message) as string });
});
