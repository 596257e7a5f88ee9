import type { Command } from "commander";
import type { EnqueueOptions } from "../../client/prepare.ts";
import type { ShapingOptions } from "../../client/shaping.ts";
import { InvalidOptionError } from "../../errors.ts";
import type { Duration } from "../../model/duration.ts";
import type { EnqueueStatus } from "../../model/enqueue-status.ts";
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
  replace?: true;
  debounce?: string;
  throttle?: string;
  id?: string;
  expiresIn?: string;
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
    .option("--at <date>", "run at this time, as 2027-01-31T09:00:00Z")
    .option("--expires-in <duration>", "cancel the job if it has not started by then")
    .option("--key <key>", "the business key of the logical work")
    .option("--priority <n>", "smaller runs first", integer)
    .option("--tag <tag>", "a tag; may be repeated", repeated)
    .option("--tenant <tenant>", "the tenant of the job")
    .option("--dedupe-key <key>", "at most one job of this kind with this key …")
    .option(
      "--dedupe-until <until>",
      '… until it has "started", has "finished" (default), or a time has passed',
    )
    .option(
      "--replace",
      "… and give a waiting one this payload and time; while it runs, run once more after it",
    )
    .option("--debounce <duration>", "run this long after the last enqueue with the key, with its payload")
    .option("--throttle <duration>", "at most one job with the key in this time")
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
    const { id, status, created } = await client.enqueue(kind, payload, toOptions(options));
    if (context.out.json) return context.out.document({ id, kind, status, created });
    context.out.line(say`${texts[status]} ${kind} ${id}`);
  });
}

const texts: Record<EnqueueStatus, string> = {
  created: "Enqueued",
  existing: "Exists already, unchanged:",
  replaced: "Replaced the waiting job:",
  deferred: "Deferred, runs later:",
};

function toShaping(flags: Flags): ShapingOptions {
  const { dedupeKey, dedupeUntil, replace, debounce, throttle } = flags;
  const key = dedupeKey === undefined ? {} : { key: dedupeKey };
  const dedupe = {
    ...key,
    ...(dedupeUntil === undefined ? {} : { until: dedupeUntil }),
    ...(replace === undefined ? {} : { replace }),
  };
  const isTimed = debounce !== undefined || throttle !== undefined;
  return {
    ...(debounce === undefined ? {} : { debounce: { ...key, wait: debounce } }),
    ...(throttle === undefined ? {} : { throttle: { ...key, every: throttle } }),
    ...(Object.keys(dedupe).length === 0 || (isTimed && dedupeUntil === undefined && replace === undefined)
      ? {}
      : { dedupe }),
  };
}

function toOptions(flags: Flags): EnqueueOptions {
  const { delay, at, expiresIn, key, priority, tag: tags, tenant, id } = flags;
  if (delay !== undefined && at !== undefined)
    throw new InvalidOptionError("--at", "takes --at or --delay, not both");
  const later = delay === undefined ? {} : { delay };
  return {
    ...(at === undefined ? later : { runAt: toDate(at, "--at") }),
    ...(expiresIn === undefined ? {} : { expiresIn: expiresIn as Duration }),
    ...(key === undefined ? {} : { key }),
    ...(priority === undefined ? {} : { priority }),
    ...(tags === undefined ? {} : { tags }),
    ...(tenant === undefined ? {} : { tenant }),
    ...toShaping(flags),
    ...(id === undefined ? {} : { id }),
  };
}
