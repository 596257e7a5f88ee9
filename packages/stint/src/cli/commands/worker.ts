import { Option, type Command } from "commander";
import { InvalidOptionError } from "../../errors.ts";
import { checkHealth } from "../../health/healthcheck.ts";
import { probesOf } from "../../health/server.ts";
import { mostProcesses } from "../../model/autoscaling.ts";
import { plural } from "../../model/figures.ts";
import { requireInteger, requireOneOf } from "../../model/options.ts";
import { examples, integer, ListOption, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { say } from "../output.ts";
import { supervise } from "../processes/supervise.ts";
import { addHealthOptions, openHealth, type HealthFlags } from "../serve-health.ts";
import { makeWorker, sayServing, sayStopped, untilStopped, type ServeFlags } from "../serve-worker.ts";
import { onStopSignals } from "../stop-signals.ts";

type WorkerFlags = ServeFlags & HealthFlags & { processes?: number; healthcheck?: true | string };

export function addWorker(program: Command): void {
  const command = program.command("worker").summary("run the worker of the config");
  command
    .description(
      "Run the worker of the config until SIGTERM or SIGINT; then claim nothing new, drain, and exit with 0.\n" +
        "A second signal ends the drain at once. The schema must have been migrated.\n" +
        "With --processes, each process runs the worker; one that dies is started again, and SIGHUP replaces them one by one.",
    )
    .addOption(new ListOption("--pool <pools>", "serve only these pools of the config, separated by commas"))
    .option("--drain <duration>", 'how long running attempts may finish after a signal, as "20s"')
    .addOption(
      new Option("--processes <n>", "run the worker in this many processes, and keep them running").argParser(
        integer,
      ),
    );
  addHealthOptions(command).option(
    "--healthcheck [what]",
    "run no worker: check whether the one that runs here is live, or ready; exit 0 or 1",
  );
  examples(
    command,
    "stint worker",
    "stint worker --pool ocr,embedding --drain 1m",
    "stint worker --processes 4",
    "stint worker --health-port 8080 --health-host 0.0.0.0",
    "stint worker --healthcheck --health-port 8080",
  );
  runs<WorkerFlags>(command, async (context, { options }) => {
    if (options.healthcheck !== undefined) return await check(context, options);
    if (options.processes !== undefined) return await superviseProcesses(context, options, options.processes);
    return await runHere(context, options);
  });
}

async function runHere(context: Context, flags: WorkerFlags): Promise<undefined> {
  const { out } = context;
  const made = await makeWorker(context, flags);
  // Before the start: a probe that arrives meanwhile learns that the worker has not started, instead of being refused.
  const health = await openHealth(probesOf([made.worker]), flags);
  const report = await untilStopped(made.worker, onStopSignals, () => {
    if (health !== undefined && !out.json) out.line(say`Health at ${health.url}`);
    sayServing(out, made, health && { health: health.url });
  });
  sayStopped(out, report);
  await health?.close();
  return undefined;
}

async function superviseProcesses(context: Context, flags: WorkerFlags, given: number): Promise<number> {
  const size = requireInteger("--processes", given, { min: 1, max: mostProcesses });
  return await supervise(context, {
    size,
    flags,
    title: `Supervising ${plural(size, "process", "processes")}`,
    event: { event: "supervising", processes: size },
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
  if (out.json) out.document({ check: what, ok, response: text });
  else out.line(say`${what}: ${ok ? "ok" : `no (${text})`}`);
  return ok ? 0 : 1;
}
