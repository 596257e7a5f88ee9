import type { Command } from "commander";
import type { ListSchedulesOptions } from "../../client/read-schedules.ts";
import { findZone, localText } from "../../model/zone.ts";
import type { Schedule, ScheduleDetail, ScheduleState } from "../../sql/schedules.ts";
import type { Slot } from "../../sql/schedule-slots.ts";
import type { AuditEntry } from "../../sql/audit.ts";
import { ScheduleNotFoundError } from "../../errors.ts";
import { examples, integer, runs, unknownCommand } from "../command.ts";
import { count, duration } from "../figures.ts";
import { age } from "../job-text.ts";
import { paint, say, toJson, type Output, type Piece } from "../output.ts";
import { pairs, table, type Column } from "../table.ts";
import { addAdd, addNext, addPause, addRemove, addResume, addRun } from "./schedule-changes.ts";

export function addSchedules(program: Command): void {
  const schedules = program
    .command("schedules")
    .summary("schedules with their next and last slots; add, pause, run and remove them")
    .description("Show schedules and change them. Without a command it lists the schedules.");
  addList(schedules);
  addShow(schedules);
  addNext(schedules);
  addRun(schedules);
  addPause(schedules);
  addResume(schedules);
  addAdd(schedules);
  addRemove(schedules);
}

type ListFlags = {
  prefix?: string;
  search?: string;
  state?: ScheduleState;
  owner?: string;
  kind?: string;
  after?: string;
  limit?: number;
};

function addList(schedules: Command): void {
  const command = schedules.command("list", { isDefault: true }).description("Schedules by name.");
  command
    .option("--prefix <text>", "names that begin with this")
    .option("--search <text>", "names that contain this, case-insensitive")
    .option("--state <state>", "active, paused, ended or broken")
    .option("--owner <name>", "schedules that the code of this service declares")
    .option("--kind <kind>", "schedules of this kind of job")
    .option("--after <name>", "the page after this name")
    .option("--limit <n>", "how many (default 50)", integer);
  examples(command, "stint schedules", "stint schedules list --prefix reminder: --json");
  // A misspelt command arrives here as an argument, because this command is the default.
  command.allowExcessArguments();
  runs<ListFlags>(command, async (context, { options, args: [misspelt] }) => {
    if (misspelt !== undefined) throw unknownCommand(schedules, misspelt);
    const { schedules: client } = await context.client();
    const page = await client.list(options satisfies ListSchedulesOptions);
    if (context.out.json) return context.out.document(page);
    if (page.schedules.length === 0) return context.out.note(say`There are no such schedules.`);
    table(context.out, columns, page.schedules);
    if (page.next !== undefined) context.out.note(say`More follow: add --after ${page.next}.`);
  });
}

const columns: readonly Column<Schedule>[] = [
  { title: "SCHEDULE", cell: ({ name }) => name },
  { title: "STATE", cell: stateText },
  { title: "RULE", cell: ruleText },
  { title: "ZONE", cell: ({ zone }) => zone, leaves: 1 },
  { title: "KIND", cell: ({ kind }) => kind, most: 40 },
  { title: "NEXT", cell: ({ nextSlot }) => age(nextSlot), align: "right" },
  { title: "LAST", cell: ({ lastSlot }) => age(lastSlot), align: "right" },
  { title: "FIRED", cell: ({ fired }) => count(fired, "green"), align: "right" },
  { title: "MISSED", cell: ({ missed }) => count(missed, "yellow"), align: "right" },
  { title: "SKIPPED", cell: ({ skipped }) => count(skipped, "yellow"), align: "right" },
  { title: "OWNER", cell: ({ owner }) => owner ?? paint("dim", "run time"), leaves: 2 },
];

export function ruleText({ cron, everyMs }: Pick<Schedule, "cron" | "everyMs">): string {
  return cron ?? `every ${duration(everyMs)}`;
}

function stateText({ state }: Schedule): Piece {
  const styles = { active: "green", paused: "yellow", ended: "dim", broken: "red" } as const;
  return paint(styles[state], state);
}

function addShow(schedules: Command): void {
  const command = schedules
    .command("show <schedule>")
    .description("One schedule: its rule, its job, its latest slots, and who changed it.");
  examples(command, "stint schedules show nightly-audit");
  runs(command, async (context, { args: [name = ""] }) => {
    const { schedules: client } = await context.client();
    const schedule = await client.get(name);
    if (schedule === undefined) throw new ScheduleNotFoundError(name);
    const [slots, audit] = await Promise.all([client.slots(name, { limit: 20 }), client.audit(name)]);
    if (context.out.json) return context.out.document({ schedule, slots, audit });
    show(context.out, schedule, slots, audit);
  });
}

function show(
  out: Output,
  schedule: ScheduleDetail,
  slots: readonly Slot[],
  audit: readonly AuditEntry[],
): void {
  const zone = findZone(schedule.zone, "zone");
  const moment = (at: Date | null): string => (at === null ? "" : localText(zone, at.getTime()));
  const { quietHours } = schedule;
  pairs(out, [
    ["Schedule", paint("bold", schedule.name)],
    ["State", stateText(schedule)],
    ["Error", schedule.error],
    ["Owner", schedule.owner ?? "run time"],
    ["Rule", ruleText(schedule)],
    ["Zone", schedule.zone],
    ["Starts", moment(schedule.startAt)],
    ["Ends", moment(schedule.endAt)],
    ["Jitter", schedule.jitterMs === 0 ? "" : duration(schedule.jitterMs)],
    ["Catch up", schedule.catchUp],
    ["Overlap", schedule.overlap],
    ["Quiet hours", quietHours === null ? "" : `${quietHours.from} to ${quietHours.to} ${quietHours.zone}`],
    ["Kind", schedule.kind],
    ["Queue", schedule.queue],
    ["Tenant", schedule.tenant],
    ["Next slot", moment(schedule.nextSlot)],
    ["Last slot", moment(schedule.lastSlot)],
    ["Last job", schedule.lastJobId],
    ["Slots", `${schedule.fired} fired, ${schedule.missed} missed, ${schedule.skipped} skipped`],
    ["Changed", `${age(schedule.updatedAt)} by ${schedule.updatedBy}`],
  ]);
  out.line(say``);
  out.line(say`${paint("dim", "Payload")}`);
  out.line(say`${toJson(schedule.payload)}`);
  if (slots.length > 0) {
    out.line(say``);
    table(out, slotColumns(moment), slots);
  }
  if (audit.length > 0) {
    out.line(say``);
    table(out, auditColumns, audit);
  }
}

const slotColumns = (moment: (at: Date) => string): readonly Column<Slot>[] => [
  { title: "SLOT", cell: ({ slot }) => moment(slot) },
  { title: "OUTCOME", cell: outcomeText },
  { title: "WRITTEN", cell: ({ at }) => age(at) },
  { title: "JOB", cell: ({ jobId }) => jobId ?? "" },
];

function outcomeText({ outcome, slots }: Slot): Piece {
  const text = slots === 1 ? outcome : `${outcome} (${slots} slots)`;
  const styles = {
    fired: "green",
    "run-now": "green",
    missed: "yellow",
    skipped: "yellow",
    failed: "red",
  } as const;
  return paint(styles[outcome], text);
}

const auditColumns: readonly Column<AuditEntry>[] = [
  { title: "ACTION", cell: (entry) => entry.action },
  { title: "WHEN", cell: (entry) => age(entry.at) },
  { title: "WHO", cell: (entry) => entry.actor, most: 48 },
  { title: "REASON", cell: (entry) => entry.reason ?? "", most: Number.POSITIVE_INFINITY },
];
