/**
 * Where the time goes between the call of an enqueue on an idle queue and the start of the handler: of this build, of another one, and of
 * graphile-worker. All run at the same time and take turns by chance, so that the machine is the same for each of them. The figures behind
 * docs/decisions/0024-everyday-rates.md.
 *
 *   npm run lab:pickup -- [--jobs 300] [--against ../another-checkout]
 */
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { spawnActor, type Actor } from "../../bench/actor/spawn.ts";
import { compileActors } from "../../bench/core/compile.ts";
import { installPeers, node24, peersFolder } from "../../bench/core/peers.ts";
import { startPostgres } from "../../bench/core/postgres.ts";
import { percentile } from "../../bench/core/stats.ts";
import type { Config } from "../../bench/core/types.ts";

type System = {
  readonly name: string;
  readonly system: "stint" | "graphile-worker";
  readonly config: Config;
  readonly execPath: string;
  readonly entry: URL;
};

/** What a socket sent or received. */
type Seen = { readonly atMs: number; readonly direction: "sent" | "received"; readonly text: string };

const parts = ["call", "sent", "wake", "claim", "response", "handler"] as const;
const warmUp = 600;

const { values } = parseArgs({
  options: { jobs: { type: "string", default: "300" }, against: { type: "string" } },
});
const jobs = Number(values.jobs);
await installPeers((line) => console.error(line));
const entry = await compileActors();
const own = { system: "stint", config: "default", execPath: process.execPath, entry } as const;
const peer = { ...own, system: "graphile-worker", execPath: node24 } as const;
const systems: System[] = [
  { ...own, name: "this build" },
  { ...own, name: "this build, Node 24", execPath: node24 },
  { ...peer, name: "graphile-worker, default" },
  { ...peer, name: "graphile-worker, fastest", config: "fast" },
];
if (values.against !== undefined) {
  // Its own benchmark must have run once, which compiles its actors.
  const other = new URL("bench/dist/actor/main.js", pathToFileURL(`${resolve(values.against)}/`));
  systems.push({ ...own, name: values.against, entry: other });
}

const postgres = await startPostgres(systems.map((_, index) => `pickup_${index}`));
try {
  const running = await Promise.all(systems.map(start));
  for (const { producer } of running)
    await producer.call("paced", { count: warmUp, minGapMs: 3, maxGapMs: 9 });
  const [minGapMs, maxGapMs] = [20 * systems.length, 100 * systems.length];
  // Not in step: each has gaps of its own.
  await Promise.all(
    running.map(({ producer }, index) =>
      producer.call("paced", { count: jobs, minGapMs: minGapMs + index, maxGapMs: maxGapMs + 7 * index }),
    ),
  );
  await sleep(500);
  console.log(`medians of ${jobs} jobs, in ms: ${parts.slice(1).join(", ")}, together`);
  for (const [index, each] of running.entries())
    console.log(`${systems[index]?.name.padEnd(28)} ${(await timesOf(each)).join("  ")}`);
} finally {
  await postgres.stop();
}

async function start({ system, config, execPath, entry: main }: System, index: number) {
  const stores = { postgres: postgres.urlOf(`pickup_${index}`), redisPort: undefined };
  const execArgv = ["--require", fileURLToPath(new URL("record-sockets.cjs", import.meta.url))];
  const spawn = async (): Promise<Actor> =>
    await spawnActor({ system, config, stores, execPath, execArgv, peers: peersFolder, entry: main });
  const [producer, worker] = [await spawn(), await spawn()];
  await producer.call("prepare");
  await worker.call("work");
  return { producer, worker };
}

/** How long each part took, and all of them. */
async function timesOf({ producer, worker }: { producer: Actor; worker: Actor }): Promise<string[]> {
  const { ms } = await worker.call("latencies");
  const latencies = ms.slice(warmUp);
  const [sent, received] = [await seenBy(producer), await seenBy(worker)];
  // Some systems return the payload.
  const enqueues = sent
    .filter(({ direction, text }) => direction === "sent" && text.includes('"at":'))
    .slice(-latencies.length);
  const took = enqueues.flatMap((enqueue, index) => {
    const at = Number(/"at":([\d.]+)/.exec(enqueue.text)?.[1]);
    const wake = received.find((each) => each.atMs > enqueue.atMs && each.text.startsWith("A"));
    const claim = received.find(
      (each) =>
        each.atMs > (wake?.atMs ?? Infinity) && each.direction === "sent" && /claim|get_job/.test(each.text),
    );
    const response = received.find(
      (each) => each.atMs > (claim?.atMs ?? Infinity) && each.direction === "received",
    );
    if (wake === undefined || claim === undefined || response === undefined) return [];
    const moments = [at, enqueue.atMs, wake.atMs, claim.atMs, response.atMs, at + (latencies[index] ?? 0)];
    return [moments.slice(1).map((moment, part) => moment - (moments[part] ?? 0))];
  });
  const medians = parts.slice(1).map((_, part) =>
    percentile(
      took.map((each) => each[part] ?? 0),
      0.5,
    ),
  );
  return [...medians, percentile(latencies, 0.5)].map((each) => each.toFixed(2));
}

async function seenBy(actor: Actor): Promise<Seen[]> {
  await actor.kill("SIGTERM");
  const file = join(tmpdir(), `stint-pickup-${actor.pid}.json`);
  const seen = JSON.parse(await readFile(file, "utf8")) as Seen[];
  await rm(file);
  return seen;
}
