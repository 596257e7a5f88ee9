import { availableParallelism } from "node:os";
import { Option, type Command } from "commander";
import { resolveProcessBounds, type AutoscaleBounds } from "../../model/autoscaling.ts";
import { toMs } from "../../model/duration.ts";
import { resolveScaling } from "../../model/scaling.ts";
import { examples, integer, ListOption, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { say } from "../output.ts";
import { Autoscaler, type ScaledProcesses } from "../processes/autoscaler.ts";
import { supervise } from "../processes/supervise.ts";
import { configPools, addScalingOptions, scalingOptions, type ScalingFlags } from "../scaling-flags.ts";
import { addHealthOptions, type HealthFlags } from "../serve-health.ts";
import type { ServeFlags } from "../serve-worker.ts";
import { requireWorker } from "../serving.ts";
import { onStopSignals } from "../stop-signals.ts";

type AutoscaleFlags = ScalingFlags &
  ServeFlags &
  HealthFlags & {
    readonly min: number;
    readonly max?: number;
    readonly every: string;
    readonly coolDown: string;
    readonly dryRun?: boolean;
  };

export function addAutoscale(program: Command): void {
  const command = program.command("autoscale").summary("run as many worker processes as the load needs");
  command
    .description(
      "Run the worker of the config in several processes, as `stint worker --processes`, and change their number by the load:\n" +
        "as `stint scale recommend` says, between --min and --max. More processes start at once; processes that are no longer\n" +
        "needed drain after the cool-down. The number stays while more workers do not help, or the database cannot be reached.",
    )
    .addOption(new ListOption("--pool <pools>", "serve only these pools of the config, separated by commas"))
    .option("--min <processes>", "the minimum number of processes", integer, 1)
    .option("--max <processes>", "the maximum number of processes (default: the number of cores)", integer);
  addScalingOptions(command)
    .option("--every <duration>", "how often to look at the load", "5s")
    .option("--cool-down <duration>", "stop processes only after fewer were enough for this long", "5m")
    .option(
      "--drain <duration>",
      'how long running attempts may finish in a process that is stopped, as "20s"',
    )
    .addOption(new Option("--dry-run", "start no process: print the decisions for the workers that run"));
  addHealthOptions(command);
  examples(
    command,
    "stint autoscale --max 8",
    "stint autoscale --pool ocr --min 2 --max 16 --cool-down 2m",
    "stint autoscale --max 8 --rule 'depth>500:+2,depth<50' --json",
    "stint autoscale --max 8 --dry-run",
  );
  runs<AutoscaleFlags>(command, async (context, { options }) => await autoscale(context, options));
}

async function autoscale(context: Context, flags: AutoscaleFlags): Promise<number | undefined> {
  const { min, max } = resolveProcessBounds({ min: flags.min, max: flags.max }, availableParallelism());
  const bounds = { min, max, coolDownMs: toMs(flags.coolDown, "--cool-down", { min: 1_000 }) };
  const everyMs = toMs(flags.every, "--every", { min: 1_000 });
  const scaling = scalingOptions(flags);
  resolveScaling("autoscale", scaling);
  if (flags.target !== undefined) toMs(flags.target, "--target", { min: 1_000 });
  if (flags.drain !== undefined) toMs(flags.drain, "--drain");
  requireWorker(await context.requireConfig());
  const pools = (await configPools(context, flags.pool)) ?? [];
  const inspector = (await context.client()).inspector();
  const run = async (processes: ScaledProcesses, stopping: AbortSignal): Promise<void> =>
    await new Autoscaler({
      out: context.out,
      processes,
      inspector,
      // Without bounds: they are those of the processes here, and not of all workers.
      capacity: async () => await inspector.capacity({ ...scaling, pools }),
      bounds,
      everyMs,
    }).run(stopping);
  if (flags.dryRun === true) return await dryRun(context, bounds, run);
  return await supervise(context, {
    size: min,
    flags,
    title: `Autoscaling between ${rangeText(bounds)}`,
    event: { event: "autoscaling", min, max },
    whileServing: async (group, stopping) =>
      await run(
        {
          get size() {
            return group.places.length;
          },
          get workerIds() {
            return group.workerIds;
          },
          resize: (size) => group.resize(size),
        },
        stopping,
      ),
  });
}

async function dryRun(
  { out }: Context,
  bounds: AutoscaleBounds,
  run: (processes: ScaledProcesses, stopping: AbortSignal) => Promise<void>,
): Promise<undefined> {
  const stopping = new AbortController();
  const forget = onStopSignals(() => stopping.abort());
  try {
    if (out.json) out.event({ event: "autoscaling", dryRun: true, min: bounds.min, max: bounds.max });
    else out.line(say`Dry run: deciding between ${rangeText(bounds)}`);
    await run({ size: undefined, workerIds: [], resize: () => undefined }, stopping.signal);
  } finally {
    forget();
  }
  return undefined;
}

function rangeText({ min, max }: AutoscaleBounds): string {
  return `${min} and ${max} processes`;
}
