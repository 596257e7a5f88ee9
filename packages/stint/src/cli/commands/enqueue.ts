import type { Command } from "commander";
import type { EnqueueOptions } from "../../client/prepare.ts";
import { InvalidOptionError } from "../../errors.ts";
import { examples, integer, repeated, runs } from "../command.ts";
import { say } from "../output.ts";
import { readJson, toDate } from "../values.ts";

type Flags = {
  delay?: string;
  at?: string;
  key?: string;
  priority?: number;
  tag?: string[];
  tenant?: string;
  dedupeKey?: string;
  dedupeUntil?: string;
  id?: string;
};

export function addEnqueue(program: Command): void {
  const command = program.command("enqueue").summary("add a job of a kind the config knows");
  command
    .argument("<kind>", "the kind of job")
    .argument("<json>", "its payload, or - to read it from standard input")
    .description(
      "Add a job. The kind must be in the config, among `jobs` or the worker's handlers; its payload is checked.",
    )
    .option("--delay <duration>", 'run this much later, as "30s" or "1h30m"')
    .option("--at <date>", "run at this moment, as 2027-01-31T09:00:00Z")
    .option("--key <key>", "the business key of the logical work")
    .option("--priority <n>", "smaller runs first", integer)
    .option("--tag <tag>", "a tag; may be repeated", repeated)
    .option("--tenant <tenant>", "whose job it is")
    .option("--dedupe-key <key>", "at most one job of this kind with this key …")
    .option(
      "--dedupe-until <until>",
      '… until it has "started", has "finished" (default), or a time has passed',
    )
    .option("--id <uuid>", "the job's id: repeat an enqueue whose outcome is unknown");
  examples(
    command,
    `stint enqueue send-receipt '{"paymentId":"p_1"}' --delay 5m --tag urgent`,
    "cat payload.json | stint enqueue send-receipt -",
  );
  runs<Flags>(command, async (context, { options, args: [kind = "", json = ""] }) => {
    await context.requireConfig();
    const payload = await readJson(json);
    const client = await context.client();
    const { id, created } = await client.enqueue(kind, payload, toOptions(options));
    if (context.out.json) return context.out.document({ id, kind, created });
    if (created) context.out.line(say`Enqueued ${kind} ${id}`);
    else context.out.line(say`There is such a job already: ${kind} ${id}`);
  });
}

function toOptions(flags: Flags): EnqueueOptions {
  const { delay, at, key, priority, tag: tags, tenant, dedupeKey, dedupeUntil, id } = flags;
  const dedupe = {
    ...(dedupeKey === undefined ? {} : { key: dedupeKey }),
    ...(dedupeUntil === undefined ? {} : { until: dedupeUntil }),
  };
  if (delay !== undefined && at !== undefined)
    throw new InvalidOptionError("--at", "takes --at or --delay, not both");
  const later = delay === undefined ? {} : { delay };
  return {
    ...(at === undefined ? later : { runAt: toDate(at, "--at") }),
    ...(key === undefined ? {} : { key }),
    ...(priority === undefined ? {} : { priority }),
    ...(tags === undefined ? {} : { tags }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(Object.keys(dedupe).length === 0 ? {} : { dedupe }),
    ...(id === undefined ? {} : { id }),
  };
}
