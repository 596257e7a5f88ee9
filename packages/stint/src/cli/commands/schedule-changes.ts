import type { Command } from "commander";
import type { SetScheduleOptions } from "../../client/define-schedule.ts";
import type { SchedulesClient } from "../../client/schedules.ts";
import { InvalidOptionError, ScheduleNotFoundError } from "../../errors.ts";
import type { ScheduleTiming } from "../../model/schedule.ts";
import { findZone, localText } from "../../model/zone.ts";
import { examples, integer, repeated, runs } from "../command.ts";
import { say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { readJson, toDate } from "../values.ts";

type NextFlags = { count?: number; zone?: string; cron?: string; every?: string };
type Next = { readonly utc: string; readonly local: string };

export function addNext(schedules: Command): void {
  const command = schedules
    .command("next [schedule]")
    .description("The next slots of a schedule, or of a rule that is not stored: what will run, and when.");
  command
    .option("--count <n>", "how many (default 10)", integer)
    .option("--zone <zone>", "show local times of this zone; with --cron, the zone of the pattern")
    .option("--cron <pattern>", "a rule instead of a schedule")
    .option("--every <duration>", "a rule instead of a schedule");
  examples(
    command,
    "stint schedules next nightly-audit --count 10 --zone Europe/Berlin",
    'stint schedules next --cron "30 2 * * *" --zone Australia/Lord_Howe',
  );
  runs<NextFlags>(command, async (context, { options: { count, zone, cron, every }, args: [name] }) => {
    const { schedules: client } = await context.client();
    const rules = [name, cron, every].filter((one) => one !== undefined);
    if (rules.length !== 1) throw new UsageError("name a schedule, or give --cron or --every: one of them");
    const { rule, shownIn } =
      name === undefined
        ? { rule: { cron, every, zone: zone ?? "UTC" } as ScheduleTiming, shownIn: zone ?? "UTC" }
        : { rule: name, shownIn: zone ?? (await zoneOf(client, name)) };
    const shown = findZone(shownIn, "--zone");
    const slots = await client.next(rule, count === undefined ? {} : { count });
    if (context.out.json)
      return context.out.document({ zone: shownIn, slots: slots.map((at) => toNext(shown, at)) });
    if (slots.length === 0) return context.out.note(say`It has no slot any more.`);
    table(
      context.out,
      nextColumns(shownIn),
      slots.map((at) => toNext(shown, at)),
    );
  });
}

async function zoneOf(client: SchedulesClient, name: string): Promise<string> {
  const schedule = await client.get(name);
  if (schedule === undefined) throw new ScheduleNotFoundError(name);
  return schedule.zone;
}

function toNext(zone: ReturnType<typeof findZone>, at: Date): Next {
  return { utc: at.toISOString(), local: localText(zone, at.getTime()) };
}

const nextColumns = (zone: string): readonly Column<Next>[] => [
  { title: zone, cell: ({ local }) => local },
  { title: "UTC", cell: ({ utc }) => utc },
];

const reason = ["--reason <text>", "why, for the audit"] as const;

export function addRun(schedules: Command): void {
  const command = schedules
    .command("run <schedule>")
    .description("Enqueue the job of a schedule now, in addition to its slots.");
  command.option(...reason);
  examples(command, 'stint schedules run nightly-audit --reason "after the fix"');
  runs<{ reason?: string }>(command, async (context, { options, args: [name = ""] }) => {
    const id = await (await context.client()).schedules.runNow(name, options);
    if (context.out.json) return context.out.document({ schedule: name, id });
    context.out.line(say`Enqueued a job of ${name}: ${id}`);
  });
}

export function addPause(schedules: Command): void {
  const command = schedules
    .command("pause <schedule>")
    .description("Pause a schedule until it is resumed. A deploy does not end the pause.");
  command.requiredOption(...reason);
  examples(command, 'stint schedules pause nightly-audit --reason "incident 12"');
  runs<{ reason: string }>(command, async (context, { options, args: [name = ""] }) => {
    await (await context.client()).schedules.pause(name, options);
    if (context.out.json) return context.out.document({ schedule: name, state: "paused" });
    context.out.line(say`Paused ${name}.`);
  });
}

export function addResume(schedules: Command): void {
  const command = schedules
    .command("resume <schedule>")
    .description(
      "Fire the slots of a paused schedule again, from now on. Slots of the pause are not caught up on.",
    );
  command.option(...reason);
  examples(command, "stint schedules resume nightly-audit");
  runs<{ reason?: string }>(command, async (context, { options, args: [name = ""] }) => {
    await (await context.client()).schedules.resume(name, options);
    if (context.out.json) return context.out.document({ schedule: name, state: "active" });
    context.out.line(say`Resumed ${name}.`);
  });
}

export function addRemove(schedules: Command): void {
  const command = schedules
    .command("remove <schedule>")
    .description("Remove a schedule that was made at run time. Its jobs stay.");
  command.option(...reason);
  examples(command, "stint schedules remove reminder:42");
  runs<{ reason?: string }>(command, async (context, { options, args: [name = ""] }) => {
    const removed = await (await context.client()).schedules.remove(name, options);
    if (!removed) throw new ScheduleNotFoundError(name);
    if (context.out.json) return context.out.document({ schedule: name, removed });
    context.out.line(say`Removed ${name}.`);
  });
}

type AddFlags = {
  cron?: string;
  every?: string;
  zone?: string;
  catchUp?: "none" | "last" | "all";
  overlap?: "skip" | "queue" | "allow";
  jitter?: string;
  startAt?: string;
  endAt?: string;
  quietHours?: string;
  quietZone?: string;
  tenant?: string;
  tag?: string[];
  priority?: number;
  reason?: string;
};

export function addAdd(schedules: Command): void {
  const command = schedules
    .command("add")
    .description(
      "Make a schedule, or change the one of this name. The kind must be in the config; its payload is checked.",
    );
  command
    .argument("<schedule>", "its name")
    .argument("<kind>", "the kind of job that each slot enqueues")
    .argument("<json>", "the payload of these jobs, or - to read it from standard input")
    .option("--cron <pattern>", '"minute hour day month weekday", or with seconds first')
    .option("--every <duration>", "an interval of real time")
    .option("--zone <zone>", 'the time zone of the pattern (default "UTC")')
    .option("--catch-up <policy>", 'slots that came while no worker ran: "none", "last" (default) or "all"')
    .option("--overlap <policy>", 'while the job before runs: "skip", "queue" or "allow" (default)')
    .option("--jitter <duration>", "fire each slot up to this much later")
    .option("--start-at <date>", "no slot before this time, as 2027-01-31T09:00:00Z")
    .option("--end-at <date>", "no slot after this time")
    .option("--quiet-hours <hours>", "start no job in these hours, as 22:00-07:00")
    .option("--quiet-zone <zone>", "the time zone of the quiet hours (default --zone)")
    .option("--tenant <tenant>", "the tenant of the jobs")
    .option("--tag <tag>", "a tag of the jobs; may be repeated", repeated)
    .option("--priority <n>", "smaller runs first", integer)
    .option(...reason);
  examples(
    command,
    `stint schedules add reminder:42 remind '{"user":42}' --cron "0 9 * * *" --zone Europe/Berlin`,
    `stint schedules add poll:feed poll '{"feed":7}' --every 15m --overlap skip --jitter 1m`,
  );
  runs<AddFlags>(command, async (context, { options, args: [name = "", kind = "", json = ""] }) => {
    await context.requireConfig();
    const payload = await readJson(json);
    const { schedules: client } = await context.client();
    const { reason: why } = options;
    const set = {
      ...toTiming(options),
      job: kind,
      payload,
      options: toJobOptions(options),
    } as SetScheduleOptions;
    const schedule = await client.set(name, set, why === undefined ? {} : { reason: why });
    if (context.out.json) return context.out.document(schedule);
    const { nextSlot, zone } = schedule;
    const next =
      nextSlot === null ? "" : ` Its next slot: ${localText(findZone(zone, "zone"), nextSlot.getTime())}.`;
    context.out.line(say`Stored schedule ${name}.${next}`);
  });
}

function toTiming(flags: AddFlags): object {
  const { cron, every, zone, catchUp, overlap, jitter, startAt, endAt, quietHours, quietZone } = flags;
  const hours = quietHours === undefined ? undefined : toQuietHours(quietHours, quietZone ?? zone);
  return Object.fromEntries(
    Object.entries({
      cron,
      every,
      zone,
      catchUp,
      overlap,
      jitter,
      startAt: startAt === undefined ? undefined : toDate(startAt, "--start-at"),
      endAt: endAt === undefined ? undefined : toDate(endAt, "--end-at"),
      quietHours: hours,
    }).filter(([, value]) => value !== undefined),
  );
}

function toQuietHours(text: string, zone: string | undefined): object {
  const [, from, to] = /^(\d{2}:\d{2})-(\d{2}:\d{2})$/.exec(text) ?? [];
  if (from === undefined || to === undefined)
    throw new InvalidOptionError(
      "--quiet-hours",
      `must be two times, as 22:00-07:00, got ${JSON.stringify(text)}`,
    );
  return zone === undefined ? { from, to } : { from, to, zone };
}

function toJobOptions({ tenant, tag: tags, priority }: AddFlags): object {
  return Object.fromEntries(
    Object.entries({ tenant, tags, priority }).filter(([, value]) => value !== undefined),
  );
}
