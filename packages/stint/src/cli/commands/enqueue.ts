import type { Command } from "commander";
import type { EnqueueOptions } from "../../client/prepare.ts";
import { InvalidOptionError } from "../../errors.ts";
import { examples, integer, repeated, runs } from "../command.ts";
import { say } from "../output.ts";

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
    const payload = parse(json === "-" ? await readAll(process.stdin) : json);
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
    ...(at === undefined ? later : { runAt: toDate(at) }),
    ...(key === undefined ? {} : { key }),
    ...(priority === undefined ? {} : { priority }),
    ...(tags === undefined ? {} : { tags }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(Object.keys(dedupe).length === 0 ? {} : { dedupe }),
    ...(id === undefined ? {} : { id }),
  };
}

// Without a zone the same words would mean another moment on another machine.
const moment = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

function toDate(text: string): Date {
  const date = new Date(text);
  if (moment.test(text) && !Number.isNaN(date.getTime())) return date;
  throw new InvalidOptionError(
    "--at",
    `must be a date with time and zone, as 2027-01-31T09:00:00Z, got ${JSON.stringify(text)}`,
  );
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    const hint = "Quote it for the shell, as '{\"a\":1}', or pass - and give it on standard input";
    throw new InvalidOptionError("json", `is not JSON (${(error as Error).message}). ${hint}`, {
      cause: error,
    });
  }
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("utf8");
}
