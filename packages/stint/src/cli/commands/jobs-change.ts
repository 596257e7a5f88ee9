import type { Command } from "commander";
import { examples, runs } from "../command.ts";
import { say } from "../output.ts";
import { readJson } from "../values.ts";

type Flags = { payload?: string; runAt?: string; delay?: string; priority?: string; reason?: string };

export function addChange(jobs: Command): void {
  const command = jobs
    .command("change <id>")
    .description(
      "Change the payload, the run time or the priority of a job that waits. A job with a new payload has all its attempts again.",
    )
    .option("--payload <json>", "the new payload, or - to read it from standard input")
    .option("--run-at <time>", "not before this time, such as 2030-01-31T12:00:00Z")
    .option("--delay <duration>", "not before this delay from now, such as 10m")
    .option("--priority <number>", "smaller runs first")
    .option("--reason <text>", "why, for the audit");
  examples(command, `stint jobs change 019a8a2c-1f00-7000-8000-0123456789ab --priority -5 --reason "VIP"`);
  runs<Flags>(command, async (context, { options, args: [id = ""] }) => {
    const { payload, runAt, delay, priority, reason } = options;
    const change: Record<string, unknown> = {
      ...(payload === undefined ? {} : { payload: await readJson(payload) }),
      ...(runAt === undefined ? {} : { runAt: new Date(runAt) }),
      ...(delay === undefined ? {} : { delay }),
      ...(priority === undefined ? {} : { priority: Number(priority) }),
    };
    const client = await context.client();
    await client.change(id, change, reason === undefined ? {} : { reason });
    if (context.out.json) return context.out.document({ id, changed: Object.keys(change) });
    context.out.line(say`${id} has changed.`);
  });
}
