import { Option, type Command } from "commander";
import { InvalidOptionError } from "../../errors.ts";
import { checkHealth } from "../../health/healthcheck.ts";
import { serveHealth, type HealthServer } from "../../health/server.ts";
import { toMs } from "../../model/duration.ts";
import { formatMs } from "../../model/figures.ts";
import { requireOneOf } from "../../model/options.ts";
import { jsonLogger } from "../../runtime/logger.ts";
import type { StopReport } from "../../worker/events.ts";
import type { Worker } from "../../worker/worker.ts";
import { examples, integer, ListOption, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { deferred } from "../deferred.ts";
import { say, type Output } from "../output.ts";
import { requireWorker, selectPools, served, servedText } from "../serving.ts";
import { onStopSignals } from "../stop-signals.ts";

type WorkerFlags = {
  pool?: string[];
  drain?: string;
  healthPort?: number;
  healthHost: string;
  healthcheck?: true | string;
};

export function addWorker(program: Command): void {
  const command = program.command("worker").summary("run the worker of the config");
  command
    .description(
      "Run the worker of the config until SIGTERM or SIGINT; then claim nothing new, drain, and exit with 0.\n" +
        "A second signal ends the drain at once. The schema must have been migrated.",
    )
    .addOption(new ListOption("--pool <pools>", "serve only these pools of the config, separated by commas"))
    .option("--drain <duration>", 'how long running attempts may finish after a signal, as "20s"')
    .addOption(
      new Option("--health-port <port>", "serve /livez, /readyz, /startupz and /metrics on this port")
        .env("STINT_HEALTH_PORT")
        .argParser(integer),
    )
    .addOption(
      new Option("--health-host <host>", "the address of that server; 0.0.0.0 for probes from outside")
        .env("STINT_HEALTH_HOST")
        .default("127.0.0.1"),
    )
    .option(
      "--healthcheck [what]",
      "run no worker: check whether the one that runs here is live, or ready; exit 0 or 1",
    );
  examples(
    command,
    "stint worker",
    "stint worker --pool ocr,embedding --drain 1m",
    "stint worker --health-port 8080 --health-host 0.0.0.0",
    "stint worker --healthcheck --health-port 8080",
  );
  runs<WorkerFlags>(command, async (context, { options }) => {
    const { pool, drain, healthPort, healthHost, healthcheck } = options;
    if (healthcheck !== undefined) return await check(context, options);
    if (drain !== undefined) toMs(drain, "--drain");
    const config = await context.requireConfig();
    const selected = selectPools(requireWorker(config), pool);
    const client = await context.client({ logger: config.options.logger ?? jsonLogger() });
    const worker = client.worker({ ...selected, ...(drain === undefined ? {} : { drain }), signals: false });

    // Before the start: a probe that arrives meanwhile learns that the worker has not started, instead of being refused.
    const health =
      healthPort === undefined
        ? undefined
        : await listening(healthPort, serveHealth(worker, { port: healthPort, host: healthHost }));
    const report = await untilStopped(worker, async () => {
      if (health !== undefined && !context.out.json) context.out.line(say`Health at ${health.url}`);
      const pools = served(selected);
      const schema = await context.schema();
      if (context.out.json)
        context.out.event({
          event: "serving",
          worker: worker.id,
          schema,
          pools,
          ...(health && { health: health.url }),
        });
      else context.out.line(say`Serving ${servedText(pools)} in schema ${schema} as ${worker.id}`);
    });
    sayStopped(context.out, report);
    await health?.close();
    return undefined;
  });
}

async function listening(port: number, server: Promise<HealthServer>): Promise<HealthServer> {
  return await server.catch((error: unknown) => {
    const { code } = error as { code?: string };
    if (code === undefined || error instanceof InvalidOptionError) throw error;
    throw new InvalidOptionError("--health-port", `${port} cannot be had (${code}). Choose another`, {
      cause: error,
    });
  });
}

/** Exit 0 or 1, as the health checks of containers want it. */
async function check(
  { out }: Context,
  { healthcheck, healthPort, healthHost }: WorkerFlags,
): Promise<number> {
  const what = requireOneOf("--healthcheck", healthcheck === true ? "live" : healthcheck, ["live", "ready"]);
  if (healthPort === undefined)
    throw new InvalidOptionError(
      "--health-port",
      "is needed to ask a running worker: the port that it was started with, or STINT_HEALTH_PORT",
    );
  // What listens on every address of this machine is asked on its own.
  const host = ["0.0.0.0", "::"].includes(healthHost) ? "127.0.0.1" : healthHost;
  const { ok, text } = await checkHealth(what === "live" ? "/livez" : "/readyz", host, healthPort);
  if (out.json) out.document({ check: what, ok, answer: text });
  else out.line(say`${what}: ${ok ? "ok" : `no (${text})`}`);
  return ok ? 0 : 1;
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
  else out.line(say`Drained in ${formatMs(ms)}: ${drained} ended, ${released} released.`);
}
