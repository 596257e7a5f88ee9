/** `npm start`: a small study platform at work. Read this file from top to bottom; README.md says what to look at. */
import { createWriteStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createDashboard, serveDashboard } from "@stint/dashboard";
import { createStint, exponential, jsonLogger, silentLogger } from "stint";
import { openDatabase, stintSchema } from "./database.ts";
import { Feed } from "./feed.ts";
import { readFlags } from "./flags.ts";
import { allHandlers, explainProviderErrors } from "./handlers.ts";
import { slots } from "./jobs.ts";
import { Producer } from "./producer.ts";
import { RescueStory } from "./rescue-story.ts";
import { openScreen, print } from "./screen.ts";
import { summarize } from "./summary.ts";
import { lookAt } from "./view.ts";
import { Watch } from "./watch.ts";

const flags = readFlags(process.argv.slice(2));
// The reader of a pipe went away (`npm start | head`): nobody is left to show anything to.
process.stdout.on("error", () => process.exit(0));
const database = await openDatabase(print).catch(giveUp);

// ---- A client and a worker for all six queues ---------------------------------------------------

const log = flags.log === undefined ? undefined : createWriteStream(flags.log, { flags: "a" });
const stint = createStint({
  database: database.url,
  schema: stintSchema,
  logger: log === undefined ? silentLogger : jsonLogger({ write: (line) => log.write(line) }),
});

const feed = new Feed();
const watch = new Watch(feed);
const worker = stint.worker({
  name: "main",
  pools: slots,
  handlers: allHandlers(stint),
  middlewares: [watch.middleware, explainProviderErrors],
  // Everything is quicker than the defaults, which are made for production and not for watching.
  backoff: exponential({ base: "1s", cap: "8s" }),
  rescueEvery: "500ms",
  // Three times the longest handler (a map, in services.ts): Ctrl-C hands nothing back, on a busy machine neither.
  drain: "30s",
  abort: "2s",
  // Finished jobs are what the summary counts; with DATABASE_URL they may be of last month.
  retention: { done: "3650d", dead: "3650d" },
  // By itself it would stop on Ctrl-C. Here the producer has to stop first.
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

// ---- Readers, a helper to be killed, and something to look at -----------------------------------

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
  // Too short a time for the story of the killed worker? It is told to its end, if that is near.
  await Promise.race([story.told, pause(15_000), interrupt.first]);
}

// ---- Drain, and say so ---------------------------------------------------------------------------

screen.status = "draining … Ctrl-C hurries";
feed.add("plain", `draining: ${worker.running} jobs are running, nothing new is taken`);
await producer.stop();
const [report] = await Promise.all([worker.stop(), story.stop()]);
screen.close();
print(
  `Drained in ${(report.ms / 1_000).toFixed(1)} s: ${report.drained} running jobs ended, ` +
    `${report.released} released with no attempt spent.`,
);

// ---- Does it add up? -----------------------------------------------------------------------------

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

/** Ctrl-C once: drain. Twice: hurry. Three times: now, whatever is lost of the story (no job is). */
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
