/** `npm start`: a small study platform. Read this file from top to bottom; README.md lists what to look at. */
import { createWriteStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createDashboard, serveDashboard } from "@stint/dashboard";
import { createStint, exponential, jsonLogger, silentLogger } from "stint";
import { openDatabase, stintSchema } from "./database.ts";
import { Feed } from "./feed.ts";
import { readFlags } from "./flags.ts";
import { allHandlers, explainProviderErrors } from "./handlers.ts";
import { guideProvider, slots } from "./jobs.ts";
import { Producer } from "./producer.ts";
import { RescueStory } from "./rescue-story.ts";
import { openScreen, print } from "./screen.ts";
import { summarize } from "./summary.ts";
import { lookAt } from "./view.ts";
import { Watch } from "./watch.ts";

const flags = readFlags(process.argv.slice(2));
// The reader of the pipe has closed it (`npm start | head`), so no further output is possible.
process.stdout.on("error", () => process.exit(0));
const database = await openDatabase(print).catch(giveUp);

// ---- A client and a worker for all six queues ---------------------------------------------------

const log = flags.log === undefined ? undefined : createWriteStream(flags.log, { flags: "a" });
const stint = createStint({
  database: database.url,
  schema: stintSchema,
  dependencies: [guideProvider],
  logger: log === undefined ? silentLogger : jsonLogger({ write: (line) => log.write(line) }),
});

const feed = new Feed();
const watch = new Watch(feed);
const worker = stint.worker({
  name: "main",
  pools: slots,
  handlers: allHandlers(stint),
  middlewares: [watch.middleware, explainProviderErrors],
  // Shorter than the defaults, which suit production, so that a viewer sees results within seconds.
  backoff: exponential({ base: "1s", cap: "8s" }),
  rescueEvery: "500ms",
  // Three times the longest handler (a map, in services.ts): after Ctrl-C every job ends, even on a busy machine.
  drain: "30s",
  abort: "2s",
  // The summary counts finished jobs, which may be from earlier runs in the database of DATABASE_URL.
  retention: { done: "3650d", dead: "3650d" },
  // By default a worker stops on Ctrl-C. Here the producer must stop first.
  signals: false,
});
watch.follow(worker);
await worker.start();
print(
  `Worker ${worker.id} started: ${Object.entries(slots)
    .map(([queue, count]) => `${queue} ${count}`)
    .join(", ")}`,
);

// ---- The dashboard, for this machine only -------------------------------------------------------

const dashboard = createDashboard({ stint, environment: { name: "demo" }, logger: silentLogger });
const served = await serveDashboard(dashboard, { port: 4000, orAnyPort: true });
print(`The dashboard is at ${served.url}`);
print(`In another terminal: npx stint --schema ${stintSchema} top`);

// ---- Readers, a helper that is killed, and the screen -------------------------------------------

const interrupt = listenForInterrupts();
const producer = new Producer(database.pool, stint, feed);
const story = new RescueStory({ url: database.url, feed, watch, worker });
const screen = openScreen({
  title: `Stint · a small study platform on ${database.name} · ${served.url}`,
  feed,
  look: async () => await lookAt(stint, watch),
  helper: () => story.line,
});
producer.start();
story.start();

if (flags.seconds === undefined) await interrupt.first;
else {
  await Promise.race([pause(flags.seconds * 1_000), interrupt.first]);
  // --seconds may be too short for the rescue: wait up to 15 s more for it.
  await Promise.race([story.ended, pause(15_000), interrupt.first]);
}

// ---- Drain, and report it ------------------------------------------------------------------------

screen.status = "draining … Ctrl-C hurries";
feed.add("plain", `draining: ${worker.running} jobs are running, nothing new is taken`);
await producer.stop();
const [report] = await Promise.all([worker.stop(), story.stop()]);
screen.close();
print(
  `Drained in ${(report.ms / 1_000).toFixed(1)} s: ${report.drained} running jobs ended, ` +
    `${report.released} released with no attempt spent.`,
);

// ---- Compare the records -------------------------------------------------------------------------

const { lines, addsUp } = await summarize(database.pool);
for (const line of ["", ...lines]) print(line);
await served.close();
await dashboard.close();
await stint.close();
await database.close();
log?.end();
process.exitCode = addsUp ? 0 : 1;

function giveUp(error: unknown): never {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  return process.exit(1);
}

/** A sleep that does not keep the process alive once everything else has ended. */
async function pause(ms: number): Promise<void> {
  await sleep(ms, undefined, { ref: false });
}

/** Ctrl-C once: drain. Twice: abort handlers. Three times: exit now, without the summary. No job is lost. */
function listenForInterrupts(): { first: Promise<void> } {
  let presses = 0;
  let resolveFirst: () => void = () => undefined;
  const first = new Promise<void>((resolve) => (resolveFirst = resolve));
  const press = (): void => {
    presses += 1;
    if (presses === 1) resolveFirst();
    else if (presses === 2) void Promise.all([worker.stop(), story.stop()]);
    else process.exit(130);
  };
  process.on("SIGINT", press);
  process.on("SIGTERM", press);
  return { first };
}
