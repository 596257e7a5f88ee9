/** The process in which `stint dev` runs the worker. Restarted after every change. */
import { formatMs, plural } from "../../model/figures.ts";
import { migrate } from "../../db/migrate.ts";
import { jsonLogger } from "../../runtime/logger.ts";
import type { Stint } from "../../stint.ts";
import type { WorkerEvents } from "../../worker/events.ts";
import type { Worker } from "../../worker/worker.ts";
import { Context, type GlobalOptions } from "../context.ts";
import { deferred } from "../deferred.ts";
import { exitCodeOf } from "../exit-code.ts";
import { lastError } from "../job-text.ts";
import { say, paint, type Output } from "../output.ts";
import { requireWorker, served, servedText } from "../serving.ts";
import { lineLogger } from "./line-logger.ts";
import type { FromChild, ToChild } from "./messages.ts";

/** When code changes: how long a running handler has to react to its AbortSignal. */
const reloadAbortMs = 250;

const stopRequested = deferred<{ now: boolean }>();
let hurry = (): void => undefined;

process.on("message", (message: ToChild) => {
  if (message.type === "run") void run(message.globals, message.config).then((code) => process.exit(code));
  else requestStop(message.now);
});
// The parent has exited: no other process could stop this one.
process.on("disconnect", () => requestStop());
process.on("SIGTERM", () => requestStop());
// Ctrl-C reaches both processes, but only the parent reacts; otherwise each Ctrl-C would count twice.
process.on("SIGINT", () => undefined);

function requestStop(now = false): void {
  stopRequested.resolve({ now });
  hurry();
}

async function run(globals: GlobalOptions, configPath: string): Promise<number> {
  const context = new Context({ ...globals, config: configPath });
  return await exitCodeOf(context, async () => await serve(context));
}

async function serve(context: Context): Promise<void> {
  const { out } = context;
  const config = await context.requireConfig();
  const options = requireWorker(config);
  const schema = await context.schema();
  const client = await context.client({
    logger: config.options.logger ?? (out.json ? jsonLogger() : lineLogger(out)),
  });
  const worker = client.worker({ ...options, signals: false });
  const applied = await migrate({ connection: await context.database(), schema });
  if (applied.length > 0) out.note(say`Applied ${plural(applied.length, "migration")} to schema ${schema}`);
  const printed = printOutcomes(worker, client, out);
  await worker.start();
  if (out.json) out.event({ event: "serving", worker: worker.id, schema, pools: served(options) });
  else out.line(say`Serving ${servedText(served(options))} in schema ${schema}`);
  const { hosts: _, addressOf: __, onAudit: ___, ...dashboard } = config.dashboard;
  send({ type: "serving", schema, dashboard });

  const { now } = await stopRequested.promise;
  hurry = () => void worker.stop();
  const report = await worker.stop(now ? { drain: 0, abort: reloadAbortMs } : {});
  await printed();
  send({ type: "stopped", report });
}

/** Print the outcome of each attempt. Returns a function that waits for pending output. */
function printOutcomes(worker: Worker, client: Stint, out: Output): () => Promise<void> {
  let printing = Promise.resolve();
  worker.on("settled", (settled) => {
    if (out.json) out.event({ event: "settled", ...settled });
    else printing = printing.then(async () => printOutcome(settled, client, out));
  });
  return () => printing;
}

async function printOutcome(settled: WorkerEvents["settled"], client: Stint, out: Output): Promise<void> {
  const { id, kind, attempt, outcome, state, ms } = settled;
  const good = outcome === "succeeded";
  const how = paint(
    good ? "green" : state === "dead" ? "red" : "yellow",
    good ? "succeeded" : `${outcome}, now ${state}`,
  );
  out.line(
    say`${paint("dim", clock())} ${kind} ${paint("dim", id)} ${how} in ${formatMs(ms)}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
  );
  if (good) return;
  const job = await client.get(id).catch(() => undefined);
  const error = job === undefined ? "" : lastError(job);
  if (error !== "") out.line(say`         ${paint("red", error)}`);
}

function clock(): string {
  return new Date().toTimeString().slice(0, 8);
}

function send(message: FromChild): void {
  if (process.connected) process.send?.(message);
}
