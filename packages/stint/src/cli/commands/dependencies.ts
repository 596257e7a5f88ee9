import type { Command } from "commander";
import type { DependencyOptionsChange, QuotaPeriod } from "../../model/dependencies.ts";
import type { DependencyAuditEntry, DependencyStatus } from "../../sql/dependencies.ts";
import { formatCount, formatMs, plural } from "../../model/figures.ts";
import { examples, runs, unknownCommand } from "../command.ts";
import { age } from "../job-text.ts";
import { paint, say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { toInteger } from "../values.ts";

export function addDependencies(program: Command): void {
  const dependencies = program.command("dependencies").summary("rates, quotas and concurrency of APIs");
  dependencies.description("Outside systems that jobs use, what is left of their limits, and live changes.");
  addList(dependencies);
  addShow(dependencies);
  addSet(dependencies);
}

function addList(dependencies: Command): void {
  const command = dependencies.command("list", { isDefault: true }).description("Every dependency.");
  examples(command, "stint dependencies", "stint dependencies list --json");
  // A misspelt command arrives here as an argument, because this command is the default.
  command.allowExcessArguments();
  runs(command, async (context, { args: [misspelt] }) => {
    if (misspelt !== undefined) throw unknownCommand(dependencies, misspelt);
    const found = await (await context.client()).dependencies.list();
    if (context.out.json) return context.out.document({ dependencies: found });
    if (found.length === 0) return context.out.note(say`There are no dependencies.`);
    table(context.out, statusColumns, found);
  });
}

function addShow(dependencies: Command): void {
  const command = dependencies.command("show <name>").description("One dependency, and who changed it.");
  examples(command, "stint dependencies show openai");
  runs(command, async (context, { args: [name = ""] }) => {
    const client = (await context.client()).dependencies;
    const [dependency, audit] = await Promise.all([client.get(name), client.audit(name)]);
    if (dependency === undefined) throw new UsageError(`There is no dependency ${name}.`);
    if (context.out.json) return context.out.document({ dependency, audit });
    table(context.out, statusColumns, [dependency]);
    if (audit.length > 0) table(context.out, auditColumns, audit);
  });
}

type SetFlags = {
  reason: string;
  concurrency?: string;
  rate?: string;
  burst?: string;
  quota?: string;
  zone?: string;
};

function addSet(dependencies: Command): void {
  const command = dependencies
    .command("set <name> [declared]")
    .description(
      "Change what a dependency allows, or make one, at once. The change ends a slow-down, and stays until a worker\n" +
        'starts whose code declares other settings. "declared" returns to the settings in code; "none" removes a part.',
    )
    .option("--concurrency <max>", "how many jobs use it at once, or none")
    .option("--rate <limit/time>", "such as 60/1m, or none")
    .option("--burst <tokens>", "with --rate: how many tokens are kept")
    .option("--quota <limit/period>", "such as 1000/day, or none")
    .option("--zone <name>", "with --quota: the time zone of its period (default: UTC)")
    .requiredOption("--reason <text>", "why, for the audit");
  examples(
    command,
    'stint dependencies set openai --rate 120/1m --burst 20 --reason "new plan"',
    'stint dependencies set openai --quota none --reason "no quota any more"',
    'stint dependencies set openai declared --reason "incident is over"',
  );
  runs<SetFlags>(command, async (context, { options, args: [name = "", declared] }) => {
    if (declared !== undefined && declared !== "declared")
      throw new UsageError(`Expected "declared" or nothing after the name, got ${declared}.`);
    const asked = changeOf(options);
    if ((declared === undefined) === (Object.keys(asked).length === 0))
      throw new UsageError('Expected either --concurrency, --rate or --quota, or "declared" after the name.');
    const change = declared === undefined ? asked : null;
    const client = await context.client();
    const dependency = await client.dependencies.set(name, change, { reason: options.reason });
    if (context.out.json) return context.out.document({ dependency });
    context.out.line(say`${name} now allows ${allowsText(dependency.settings)}.`);
  });
}

function changeOf({ concurrency, rate, burst, quota, zone }: SetFlags): DependencyOptionsChange {
  const change: DependencyOptionsChange = {};
  if (concurrency !== undefined)
    change.concurrency = concurrency === "none" ? null : toInteger(concurrency, "--concurrency", " or none");
  if (rate !== undefined) {
    const [limit = "", per = ""] = rate.split("/");
    change.rate =
      rate === "none"
        ? null
        : {
            limit: toInteger(limit, "--rate", ", a slash and a time"),
            per,
            ...(burst === undefined ? {} : { burst: toInteger(burst, "--burst") }),
          };
  } else if (burst !== undefined) throw new UsageError("--burst needs --rate.");
  if (quota !== undefined) {
    const [limit = "", per = ""] = quota.split("/");
    change.quota =
      quota === "none"
        ? null
        : {
            limit: toInteger(limit, "--quota", ", a slash and a period"),
            per: per as QuotaPeriod,
            ...(zone === undefined ? {} : { zone }),
          };
  } else if (zone !== undefined) throw new UsageError("--zone needs --quota.");
  return change;
}

type Settings = DependencyStatus["settings"];

function rateText({ rate }: Settings): string {
  return rate === undefined ? "" : `${formatCount(rate.limit)} per ${formatMs(rate.perMs)}`;
}

function allowsText(settings: Settings): string {
  const { concurrency, rate, quota } = settings;
  const parts = [
    ...(concurrency === undefined ? [] : [`${plural(concurrency.max, "job")} at once`]),
    ...(rate === undefined ? [] : [`${rateText(settings)} with bursts of ${formatCount(rate.burst)}`]),
    ...(quota === undefined ? [] : [`${formatCount(quota.limit)} each ${quota.per} (${quota.zone})`]),
  ];
  return parts.length === 0 ? "any number of jobs" : parts.join(", ");
}

function stateText({ isPaused, slowUntil }: DependencyStatus): string {
  if (isPaused) return "paused";
  return slowUntil === null ? "" : `slow until ${slowUntil.toISOString()}`;
}

function changeText(change: DependencyAuditEntry["change"]): string {
  const settings = change["settings"]?.to;
  return typeof settings === "object" && settings !== null
    ? allowsText(settings)
    : JSON.stringify(settings ?? change["until"]?.to ?? null);
}

const figure = (value: number | null): string => String(value ?? "");

const statusColumns: readonly Column<DependencyStatus>[] = [
  { title: "DEPENDENCY", cell: ({ name }) => paint("bold", name), most: 80 },
  {
    title: "CONCURRENCY",
    align: "right",
    cell: ({ effectiveConcurrency: now, settings: { concurrency } }) =>
      concurrency === undefined ? "" : now === concurrency.max ? String(now) : `${now} of ${concurrency.max}`,
  },
  { title: "RUNNING", align: "right", cell: ({ running }) => String(running) },
  { title: "WAITING", align: "right", cell: ({ waiting }) => String(waiting) },
  { title: "RATE", align: "right", cell: ({ settings }) => rateText(settings) },
  { title: "TOKENS", align: "right", cell: ({ tokens }) => figure(tokens) },
  { title: "QUOTA LEFT", align: "right", cell: ({ quotaLeft }) => figure(quotaLeft) },
  { title: "STATUS", cell: stateText },
  { title: "KINDS", cell: ({ kinds }) => kinds.join(", "), most: 48 },
];

const auditColumns: readonly Column<DependencyAuditEntry>[] = [
  { title: "ACTION", cell: ({ action }) => action },
  { title: "WHEN", cell: ({ at }) => age(at) },
  { title: "WHO", cell: ({ actor }) => actor, most: 48 },
  {
    title: "TO",
    cell: ({ change }) => changeText(change),
    most: 80,
  },
  { title: "REASON", cell: ({ reason }) => reason ?? "", most: Number.POSITIVE_INFINITY },
];
