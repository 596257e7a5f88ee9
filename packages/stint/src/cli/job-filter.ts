import type { Command } from "commander";
import { InvalidOptionError } from "../errors.ts";
import type { JobFilter } from "../inspect/types.ts";
import { toMs } from "../model/duration.ts";
import { states, type JobState } from "../model/state.ts";
import { ListOption } from "./command.ts";

/** Options that say which jobs are meant. */
export type FilterFlags = Omit<JobFilter, "state" | "since" | "until"> & {
  state?: JobState[];
  since?: string;
  until?: string;
};

export function addFilter(command: Command, among: readonly JobState[] = states): Command {
  return command
    .addOption(
      new ListOption("--state <states>", `only these, separated by commas: ${among.join(", ")}`, among),
    )
    .option("--kind <kind>", "only this kind; * matches any characters, as in 'read-*'")
    .option("--queue <queue>", "only this queue; * matches any characters, as in 'tenant-*'")
    .option("--key <key>", "only this business key")
    .option("--tenant <tenant>", "only this tenant")
    .option("--tag <tag>", "only jobs with this tag")
    .option("--error <text>", "only with this text in the reason or last error; case-insensitive")
    .option("--fingerprint <fingerprint>", "only dead jobs of this group, as `stint dead list` names it")
    .option("--since <when>", 'only enqueued since: "2h" ago, or a date as 2027-01-31T09:00:00Z')
    .option("--until <when>", "only enqueued before, written the same way");
}

const names = [
  "state",
  "kind",
  "queue",
  "key",
  "tenant",
  "tag",
  "error",
  "fingerprint",
  "since",
  "until",
] as const;

/** The flags that are a filter, of all flags of a command. */
export function toFilter(flags: FilterFlags, now = Date.now()): JobFilter {
  const given = names.filter((name) => flags[name] !== undefined);
  const moments = new Set<string>(["since", "until"]);
  return Object.fromEntries(
    given.map((name) => [
      name,
      moments.has(name) ? toMoment(`--${name}`, flags[name] as string, now) : flags[name],
    ]),
  );
}

// Without a zone the same words would mean another moment on another machine.
const withZone = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

function toMoment(option: string, text: string, now: number): Date {
  const date = new Date(text);
  if (withZone.test(text) && !Number.isNaN(date.getTime())) return date;
  try {
    return new Date(now - toMs(text, option));
  } catch (error) {
    throw new InvalidOptionError(
      option,
      `must be how long ago, as "2h", or a date with time and zone, as 2027-01-31T09:00:00Z, got ${JSON.stringify(text)}`,
      { cause: error },
    );
  }
}
