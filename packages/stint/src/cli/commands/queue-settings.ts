import type { Command } from "commander";
import type { QueueHealth } from "../../inspect/types.ts";
import type { Admission, AdmissionSettings } from "../../model/admission.ts";
import type { FairSettings } from "../../model/fairness.ts";
import type { Duration } from "../../model/duration.ts";
import {
  targetAges,
  type QueueChange,
  type QueueSetting,
  type TargetAge,
} from "../../model/queue-settings.ts";
import { plural } from "../../model/figures.ts";
import type { QueueAuditEntry } from "../../sql/queue-settings.ts";
import { examples, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { duration, lateIn } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { age } from "../job-text.ts";
import { meant, warnOfMisspelling } from "../misspelling.ts";
import { paint, say, type Output } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { readJson } from "../values.ts";
import { pairs, table, type Column } from "../table.ts";

export function addShow(queues: Command): void {
  const command = queues
    .command("show <queue>")
    .description(
      "One queue or pattern: its depth, its settings and where they come from, and who changed them.",
    );
  examples(command, "stint queues show payments", "stint queues show 'tenant-*'");
  runs(command, async (context, { args: [queue = ""] }) => {
    const { queueSettings } = await context.client();
    const [audit, settings, queues] = await Promise.all([
      queueSettings.audit(queue),
      queueSettings.list(),
      known(context),
    ]);
    const setting = settings.find((one) => one.queue === queue) ?? null;
    const health = queues.find((one) => one.queue === queue) ?? null;
    if (setting === null && health === null && audit.length === 0)
      throw new UsageError(
        `There is no queue ${queue}${meant(
          queue,
          queues.map((one) => one.queue),
        )}`,
      );
    if (context.out.json) return context.out.document({ queue, health, setting, audit });
    show(context.out, queue, { setting, health, audit, target: targetAges(settings)(queue) });
  });
}

type SetFlags = { targetAge?: string; admission?: string; fair?: string; aging?: string; reason: string };

export function addSet(queues: Command): void {
  const command = queues
    .command("set <queue>")
    .description(
      "Change the settings of a queue, or of all queues that a pattern matches, at once. The change stays\n" +
        "until a worker starts whose code declares another value.",
    );
  command
    .option(
      "--target-age <duration>",
      'the age that the oldest ready job should stay below; "declared" returns to the value in code',
    )
    .option(
      "--admission <json>",
      'how many jobs the queue takes, such as \'{"maxDepth":10000}\'; "declared" returns to the value in code',
    )
    .option(
      "--fair <json>",
      'share the workers among tenants: "tenant", \'{"by":"tenant","weights":{"acme":3}}\', "off", or "declared"',
    )
    .option(
      "--aging <duration>",
      'a job that has waited for longer gets a share of the claims, whatever its priority; "off" or "declared"',
    )
    .requiredOption("--reason <text>", "why, for the audit");
  examples(
    command,
    'stint queues set payments --target-age 30s --reason "promised to customers"',
    'stint queues set payments --target-age declared --reason "incident is over"',
    'stint queues set emails --fair tenant --reason "one tenant fills the queue"',
    `stint queues set emails --admission '{"maxDepth":10000,"policy":"reject"}' --reason "the provider is slow"`,
  );
  runs<SetFlags>(command, async (context, { options, args: [queue = ""] }) => {
    const { queueSettings } = await context.client();
    const { targetAge, admission, fair, aging, reason } = options;
    const change: QueueChange = {};
    if (targetAge !== undefined) change.targetAge = targetAge === "declared" ? null : (targetAge as Duration);
    if (admission !== undefined)
      change.admission = admission === "declared" ? null : ((await readJson(admission)) as AdmissionSettings);
    if (fair !== undefined) change.fair = await readFair(fair);
    if (aging !== undefined)
      change.aging = aging === "declared" ? null : aging === "off" ? false : (aging as Duration);
    const setting = await queueSettings.set(queue, change, { reason });
    if (context.out.json) context.out.document(setting);
    else {
      const target = targetAges(await queueSettings.list())(queue);
      if (targetAge !== undefined)
        context.out.line(say`The target age of ${queue} is now ${targetText(queue, target)}.`);
      if (admission !== undefined)
        context.out.line(say`The admission of ${queue} is now ${admissionText(setting.admission)}.`);
      if (fair !== undefined || aging !== undefined)
        context.out.line(say`The claim order of ${queue} is now ${orderText(setting)}.`);
    }
    await warnOfMisspelling(context, "queue", queue);
  });
}

export function addForget(queues: Command): void {
  const command = queues
    .command("forget <queue>")
    .description("Delete the settings of a queue or pattern that code no longer declares.");
  command.requiredOption("--reason <text>", "why, for the audit");
  examples(command, 'stint queues forget old-imports --reason "the queue was renamed"');
  runs<{ reason: string }>(command, async (context, { options: { reason }, args: [queue = ""] }) => {
    const forgotten = await (await context.client()).queueSettings.forget(queue, { reason });
    if (context.out.json) return context.out.document({ queue, forgotten });
    context.out.line(
      forgotten ? say`Deleted the settings of ${queue}.` : say`There were no settings of ${queue}.`,
    );
  });
}

async function known(context: Context): Promise<readonly QueueHealth[]> {
  return (await inspecting(context, (inspector) => inspector.health())).queues;
}

type Shown = {
  readonly target: TargetAge;
  readonly setting: QueueSetting | null;
  readonly health: QueueHealth | null;
  readonly audit: readonly QueueAuditEntry[];
};

function pausedText(paused: QueueHealth["paused"]): string {
  if (paused === null) return "";
  const until = paused.until === null ? "until it is resumed" : `until ${paused.until.toISOString()}`;
  return `${age(paused.pausedAt)} by ${paused.pausedBy}, ${until}: ${paused.reason}`;
}

function show(out: Output, queue: string, { target, setting, health, audit }: Shown): void {
  pairs(out, [
    ["Queue", paint("bold", queue)],
    ["Target age", targetText(queue, target)],
    ["Declared", duration(setting?.declaredTargetAgeMs ?? null)],
    ["Admission", admissionText(setting?.admission ?? null)],
    ["Claim order", orderText(setting)],
    ["Changed", setting === null ? "" : `${age(setting.updatedAt)} by ${setting.updatedBy}`],
    ["Paused", pausedText(health?.paused ?? null)],
    ["Oldest ready", duration(health?.oldestReadyMs ?? null)],
    ["Breach in", health === null ? "" : lateIn(health)],
    ["Ready", health?.depth.ready ?? ""],
    ["Running", health?.depth.running ?? ""],
    ["Dead", health?.depth.dead ?? ""],
    [
      "Serving",
      health === null ? "" : `${plural(health.workers, "worker")}, ${plural(health.slots.total, "slot")}`,
    ],
  ]);
  if (audit.length === 0) return;
  out.line(say``);
  table(out, auditColumns, audit);
}

function admissionText(admission: Admission | null): string {
  return admission === null ? "any number of jobs" : JSON.stringify(admission);
}

async function readFair(value: string): Promise<FairSettings | false | null> {
  if (value === "declared") return null;
  if (value === "off") return false;
  return value.startsWith("{") ? ((await readJson(value)) as FairSettings) : (value as FairSettings);
}

function orderText(setting: Pick<QueueSetting, "fair" | "agingMs"> | null): string {
  const { fair = null, agingMs = null } = setting ?? {};
  if (fair !== null && fair !== false) {
    const weights = JSON.stringify(fair.weights);
    return `tenants take turns${weights === "{}" ? "" : `, weights ${weights}`}`;
  }
  return agingMs === null || agingMs === 0
    ? "priority, then time"
    : `priority; jobs older than ${duration(agingMs)} get a share`;
}

function targetText(queue: string, { ms, source, setFor }: TargetAge): string {
  const from = { default: "default", code: "declared in code", live: "live change" }[source];
  return `${duration(ms)} (${from}${setFor === null || setFor === queue ? "" : ` of ${setFor}`})`;
}

const auditColumns: readonly Column<QueueAuditEntry>[] = [
  { title: "ACTION", cell: (entry) => entry.action },
  { title: "WHEN", cell: (entry) => age(entry.at) },
  { title: "WHO", cell: (entry) => entry.actor, most: 48 },
  { title: "TARGET AGE", cell: changeText },
  { title: "REASON", cell: (entry) => entry.reason ?? "", most: Number.POSITIVE_INFINITY },
];

function changeText({ change }: QueueAuditEntry): string {
  if (change["admission"] !== undefined)
    return `admission ${JSON.stringify(change["admission"].from)} → ${JSON.stringify(change["admission"].to)}`;
  if (change["fair"] !== undefined)
    return `fair ${JSON.stringify(change["fair"].from)} → ${JSON.stringify(change["fair"].to)}`;
  if (change["agingMs"] !== undefined)
    return `aging ${JSON.stringify(change["agingMs"].from)} → ${JSON.stringify(change["agingMs"].to)}`;
  if (change["targetAgeMs"] === undefined) return "";
  const { from, to } = change["targetAgeMs"];
  const text = (value: unknown): string => (typeof value === "number" ? duration(value) : "default");
  return `${text(from)} → ${text(to)}`;
}
