import type { Command } from "commander";
import { examples, runs } from "../command.ts";
import { say } from "../output.ts";
import { readJson } from "../values.ts";

type Flags = { reason?: string };

export function addComplete(jobs: Command): void {
  const command = jobs
    .command("complete <id> [json]")
    .description(
      "End a job that no worker runs as succeeded: its work was done elsewhere. The JSON is its result, or - to read it from standard input.",
    )
    .option("--reason <text>", "why, for the audit");
  examples(
    command,
    `stint jobs complete 019a8a2c-1f00-7000-8000-0123456789ab '{"approved":true}' --reason "by phone"`,
  );
  runs<Flags>(command, async (context, { options: { reason }, args: [id = "", json] }) => {
    const result = json === undefined ? undefined : await readJson(json);
    const client = await context.client();
    await client.complete(id, result, reason === undefined ? {} : { reason });
    if (context.out.json) return context.out.document({ id, state: "succeeded" });
    context.out.line(say`${id} has succeeded.`);
  });
}
