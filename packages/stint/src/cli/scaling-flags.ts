import { Option, type Command } from "commander";
import type { CapacityOptions, CapacityPool } from "../inspect/capacity.ts";
import { resolveRule, type ScalingRule } from "../model/scaling.ts";
import { resolveWorkerOptions } from "../worker/options.ts";
import type { Context } from "./context.ts";
import { UsageError } from "./report-error.ts";
import { selectPools } from "./serving.ts";

/** Flags of commands that recommend a number of workers. */
export type ScalingFlags = { readonly target?: string; readonly rule?: readonly string[] };

export function addScalingOptions(command: Command): Command {
  return command
    .option(
      "--target <duration>",
      "finish ready jobs within this time (default: the target age of each queue)",
    )
    .addOption(
      new Option(
        "--rule <rule...>",
        "add workers above a depth until it is low again, such as depth>500:+2,depth<50",
      ),
    );
}

export function scalingOptions({
  target,
  rule = [],
}: ScalingFlags): Pick<CapacityOptions, "target" | "rules"> {
  return { ...(target === undefined ? {} : { target }), rules: rule.map(toRule) };
}

function toRule(text: string): ScalingRule {
  const [, depthAbove, add, depthBelow] =
    /^depth>(\d+):\+(\d+),depth<(\d+)$/.exec(text.replaceAll(/\s/g, "")) ?? [];
  if (depthAbove === undefined)
    throw new UsageError(`--rule must be such as depth>500:+2,depth<50, got "${text}".`);
  return resolveRule(`--rule ${text}`, {
    depthAbove: Number(depthAbove),
    add: Number(add),
    depthBelow: Number(depthBelow),
  });
}

/** The pools of the config's worker, or of those only; undefined if the config has no worker. */
export async function configPools(
  context: Context,
  names: readonly string[] | undefined,
): Promise<CapacityPool[] | undefined> {
  const worker = (await context.config())?.worker;
  return worker === undefined
    ? undefined
    : resolveWorkerOptions(selectPools(worker, names)).pools.map(({ name, queues, slots }) => ({
        name,
        queues,
        slots,
      }));
}
