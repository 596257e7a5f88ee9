import type { Command } from "commander";
import { fairOf } from "../../model/fairness.ts";
import type { QueueTenants } from "../../inspect/types.ts";
import { examples, runs } from "../command.ts";
import { count, duration } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { paint, say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { toInteger } from "../values.ts";

export function addTenants(program: Command): void {
  const tenants = program
    .command("tenants")
    .summary("the tenants of a queue, their jobs and their weights")
    .description("Show the tenants of a queue, and change their weights in a fair queue.");
  addList(tenants);
  addWeight(tenants);
}

function addList(tenants: Command): void {
  const command = tenants
    .command("list <queue>", { isDefault: true })
    .description(
      "Ready and running jobs of a queue by tenant, those with the most ready jobs first. It counts the jobs of the\n" +
        "queue, so it is exact, and takes longer the more there are.",
    )
    .option("--limit <count>", "how many tenants, at most 100,000", "100");
  examples(command, "stint tenants emails", "stint tenants emails --json");
  runs<{ limit: string }>(command, async (context, { options: { limit }, args: [queue = ""] }) => {
    const found = await inspecting(context, (inspector) =>
      inspector.tenants(queue, { limit: toInteger(limit, "--limit") }),
    );
    if (context.out.json) return context.out.document(found);
    if (found.tenants.length === 0) return context.out.note(say`Queue ${queue} has no ready or running job.`);
    table(context.out, columns, found.tenants);
    if (!found.fair)
      context.out.note(
        say`Queue ${queue} is not fair: its jobs run by priority and time, whichever tenant they have.`,
      );
  });
}

function addWeight(tenants: Command): void {
  const command = tenants
    .command("weight <queue> <tenant> <weight>")
    .description(
      "Change how many jobs a tenant takes in its turn, in a fair queue, at once. The tenant * is for all tenants\n" +
        "without a weight of their own.",
    )
    .requiredOption("--reason <text>", "why, for the audit");
  examples(command, 'stint tenants weight emails acme 3 --reason "pays for more"');
  runs<{ reason: string }>(
    command,
    async (context, { options: { reason }, args: [queue = "", tenant = "", weight = ""] }) => {
      const { queueSettings } = await context.client();
      const fair = fairOf(await queueSettings.list(), queue);
      if (fair === false)
        throw new UsageError(
          `Queue ${queue} is not fair. Run: stint queues set ${queue} --fair tenant --reason "…"`,
        );
      const weights = { ...fair.weights, [tenant]: toInteger(weight, "weight") };
      const setting = await queueSettings.set(queue, { fair: { by: "tenant", weights } }, { reason });
      if (context.out.json) return context.out.document(setting);
      context.out.line(say`The weight of ${tenant} in ${queue} is now ${weight}.`);
    },
  );
}

const columns: readonly Column<QueueTenants["tenants"][number]>[] = [
  { title: "TENANT", cell: ({ tenant }) => tenant ?? paint("dim", "none"), most: 60 },
  { title: "WEIGHT", cell: ({ weight }) => String(weight), align: "right" },
  { title: "READY", cell: ({ ready }) => count(ready, "blue"), align: "right" },
  { title: "RUNNING", cell: ({ running }) => count(running, "green"), align: "right" },
  { title: "OLDEST READY", cell: ({ oldestReadyMs }) => duration(oldestReadyMs), align: "right" },
];
