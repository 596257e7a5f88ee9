import { Option, type Command } from "commander";
import type { Capacity, PoolCapacity } from "../../inspect/capacity.ts";
import { plural } from "../../model/figures.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { count, duration, percent, rate } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { addScalingOptions, configPools, scalingOptions, type ScalingFlags } from "../scaling-flags.ts";
import { table, type Column } from "../table.ts";

type Flags = ScalingFlags & { pool?: string[]; min: number; max?: number; most?: number };

export function addScale(program: Command): void {
  const scale = program.command("scale").summary("how many workers there should be");
  scale.description("Recommend a number of workers, and name what limits it.");
  const command = scale
    .command("recommend")
    .description(
      "How many workers the pools of the config should have, from depth, age, arrivals and run times. Without a\n" +
        "worker in the config: of every queue that a live worker serves.",
    )
    .option("--pool <name...>", "only these pools of the config")
    .option("--min <workers>", "the minimum number of workers", integer, 1)
    .option("--max <workers>", "the maximum number of workers", integer)
    .addOption(new Option("--most <workers>", "the former name of --max").argParser(integer).hideHelp());
  addScalingOptions(command);
  examples(
    command,
    "stint scale recommend",
    "stint scale recommend --target 2m --max 20 --json",
    "stint scale recommend --rule 'depth>500:+2,depth<50'",
  );
  runs<Flags>(command, async (context, { options }) => {
    const pools = await configPools(context, options.pool);
    if (pools === undefined && options.pool !== undefined)
      throw new UsageError("--pool needs a config with a worker.");
    const { min, max = options.most } = options;
    const seen = await inspecting(
      context,
      async (inspector) =>
        await inspector.capacity({
          ...(pools === undefined ? {} : { pools }),
          ...scalingOptions(options),
          min,
          ...(max === undefined ? {} : { max }),
        }),
    );
    if (context.out.json) return context.out.document(seen);
    print(context, seen);
  });
}

function print({ out }: Context, { pools, recommended, workers }: Capacity): void {
  if (pools.length > 0) table(out, columns, pools);
  else out.note(say`No queue holds a job, and no worker serves one.`);
  out.line(say`Recommended: ${plural(recommended, "worker")}. Live: ${workers}.`);
}

const columns: readonly Column<PoolCapacity>[] = [
  { title: "POOL", cell: (row) => row.pool },
  { title: "READY", cell: (row) => count(row.ready, "cyan"), align: "right" },
  { title: "OLDEST READY", cell: (row) => duration(row.oldestReadyMs), align: "right" },
  { title: "ARRIVED", cell: (row) => rate(row.arrivedPerS), align: "right", leaves: 3 },
  { title: "RAN", cell: (row) => rate(row.ranPerS), align: "right", leaves: 2 },
  { title: "BUSY", cell: (row) => percent(row.utilisation), align: "right" },
  { title: "DRAINS IN", cell: (row) => duration(row.drainMs), align: "right", leaves: 1 },
  { title: "SERVING", cell: (row) => count(row.workers, "green"), align: "right" },
  { title: "RECOMMENDED", cell: (row) => String(row.recommended), align: "right" },
  { title: "LIMITED BY", cell: (row) => row.limitedBy.text },
];
