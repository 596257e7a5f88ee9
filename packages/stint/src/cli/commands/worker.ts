import type { Command } from "commander";
import { formatMs, toMs } from "../../model/duration.ts";
import { jsonLogger } from "../../runtime/logger.ts";
import type { StopReport } from "../../worker/events.ts";
import type { Worker } from "../../worker/worker.ts";
import { examples, listed, runs } from "../command.ts";
import { deferred } from "../deferred.ts";
import { say, type Output } from "../output.ts";
import { requireWorker, selectPools, served, servedText } from "../serving.ts";
import { onStopSignals } from "../stop-signals.ts";

export function addWorker(program: Command): void {
  const command = program.command("worker").summary("run the worker of the config");
  command
    .description(
      "Run the worker of the config until SIGTERM or SIGINT; then take nothing new, drain, and end with 0.\n" +
        "A second signal cuts the draining short. The schema must have been migrated.",
    )
    .option("--pool <names>", "serve only these pools of the config, separated by commas", listed)
    .option("--drain <duration>", 'how long running attempts may finish after a signal, as "20s"');
  examples(command, "stint worker", "stint worker --pool ocr,embedding --drain 1m");
  runs<{ pool?: string[]; drain?: string }>(command, async (context, { options: { pool, drain } }) => {
    if (drain !== undefined) toMs(drain, "--drain");
    const config = await context.requireConfig();
    const selected = selectPools(requireWorker(config), pool);
    const client = await context.client({ logger: config.options.logger ?? jsonLogger() });
    const worker = client.worker({ ...selected, ...(drain === undefined ? {} : { drain }), signals: false });

    const report = await untilStopped(worker, async () => {
      const pools = served(selected);
      const schema = await context.schema();
      if (context.out.json) context.out.event({ event: "serving", worker: worker.id, schema, pools });
      else context.out.line(say`Serving ${servedText(pools)} in schema ${schema} as ${worker.id}`);
    });
    sayStopped(context.out, report);
  });
}

/** Start the worker, and stop it at the first signal; at the second, hurry. */
async function untilStopped(worker: Worker, started: () => Promise<void>): Promise<StopReport> {
  // Heard from before the start: a signal that comes meanwhile must not end a worker that is about to claim.
  const signalled = deferred();
  let stopping = false;
  const forget = onStopSignals(() => {
    if (stopping) void worker.stop();
    stopping = true;
    signalled.resolve();
  });
  // While the database is away there may be no socket open, and nothing else would keep the process.
  const alive = setInterval(() => undefined, 60_000);
  try {
    await worker.start();
    await started();
    await signalled.promise;
    return await worker.stop();
  } finally {
    clearInterval(alive);
    forget();
  }
}

export function sayStopped(out: Output, report: StopReport): void {
  const { drained, released, ms } = report;
  if (out.json) out.event({ event: "stopped", ...report });
  else out.line(say`Drained in ${formatMs(ms)}: ${drained} ended, ${released} handed back.`);
}
