/** The benchmark: Stint, the peers and the limit of bare SQL, interleaved in one run. See README.md. */
import { fileURLToPath } from "node:url";
import { compileActors } from "./core/compile.ts";
import { busyWarning, describeMachine, stintVersion } from "./core/machine.ts";
import { installPeers, node24, peersFolder, peerVersions } from "./core/peers.ts";
import { startPostgres } from "./core/postgres.ts";
import { startRedis } from "./core/redis.ts";
import { writeReport } from "./core/report.ts";
import { run } from "./core/run.ts";
import { help, parseOptions, type BenchOptions } from "./options.ts";
import { writePlots } from "./plots/write.ts";
import { databaseOf } from "./systems/index.ts";

const undo: (() => Promise<void>)[] = [];
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void leave(130));

// Leftovers of a failed cell may reject later, outside the cell; the run continues.
process.on("unhandledRejection", () => undefined);

try {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) console.log(help);
  else {
    const jsonFile = options.jsonFile ?? fileURLToPath(new URL("results/latest.json", import.meta.url));
    if (!options.plotsOnly) await bench({ ...options, jsonFile });
    // A quick run is too coarse to publish.
    if (options.plotsOnly || !options.quick)
      for (const file of [...(await writePlots(jsonFile)), await writeReport(jsonFile)]) console.error(file);
  }
  await leave(0);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  await leave(1);
}

async function bench(options: BenchOptions & { jsonFile: string }): Promise<void> {
  const warning = busyWarning();
  if (warning !== undefined) console.error(warning);
  await installPeers((line) => console.error(line));
  const actorEntry = await compileActors();

  const wantsRedis = options.systems.some((one) => one.role === "redis");
  const redis = wantsRedis ? await startRedis() : undefined;
  if (redis !== undefined) undo.push(() => redis.stop());
  else if (wantsRedis) console.error("No redis-server on the PATH: bullmq-redis is left out");
  const systems = options.systems.filter((one) => one.role !== "redis" || redis !== undefined);

  const postgres = await startPostgres(systems.map((one) => databaseOf(one.name)));
  undo.push(() => postgres.stop());
  if (!options.newLog) await postgres.recycleLog();

  const peers = await peerVersions();
  await run({
    ...options,
    systems,
    ground: {
      postgres,
      redis,
      actorEntry,
      peers: peersFolder,
      nodes: { own: process.execPath, "24": node24 },
    },
    machine: describeMachine(),
    versions: {
      stint: await stintVersion(),
      node: process.versions.node,
      postgres: postgres.version,
      ...(redis === undefined ? {} : { redis: redis.version }),
      ...peers,
    },
  });
}

/** Stop the servers and remove their folders at every kind of exit. Actors exit by themselves with this process. */
async function leave(code: number): Promise<void> {
  process.exitCode = code;
  for (const stop of undo.splice(0).reverse()) await stop().catch(() => undefined);
  process.exit();
}
