import type { Command } from "commander";
import { examples, runs } from "../command.ts";
import { say } from "../output.ts";
import { readJson } from "../values.ts";

type Flags = { kind?: string; id?: string };

export function addSignal(program: Command): void {
  const command = program.command("signal").summary("send a signal to a job that waits for it, or will");
  command
    .argument("<job>", "the id of a job, or its key")
    .argument("<name>", "the name of the signal")
    .argument("[json]", "its payload, or - to read it from standard input (default null)")
    .description(
      "Send a signal to one live job. Its handler receives it in waitForSignal, also if it starts to wait later.",
    )
    .option("--kind <kind>", "the kind of the job, where jobs of several kinds have the key")
    .option("--id <uuid>", "the signal's id: repeat a signal whose outcome is unknown");
  examples(
    command,
    `stint signal order:42 approved '{"by":"ann"}'`,
    "stint signal 019a8a2c-1f00-7000-8000-0123456789ab approved",
  );
  runs<Flags>(command, async (context, { options: { kind, id }, args: [job = "", name = "", json] }) => {
    const payload = json === undefined ? null : await readJson(json);
    const client = await context.client();
    const target = kind === undefined ? job : { key: job, kind };
    const jobId = await client.signal(target, name, payload, id === undefined ? {} : { id });
    if (context.out.json) return context.out.document({ job: jobId, signal: name });
    context.out.line(say`Sent ${name} to ${jobId}.`);
  });
}
