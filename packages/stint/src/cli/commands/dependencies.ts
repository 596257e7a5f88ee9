import type { Command } from "commander";
import type { DependencyOptionsChange, QuotaPeriod } from "../../model/dependencies.ts";
import type { DependencyAuditEntry, DependencyStatus } from "../../sql/dependencies.ts";
import { examples, runs } from "../command.ts";
import { age } from "../job-text.ts";
import { paint, say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";

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
  runs(command, async (context) => {
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
    const change = declared === undefined ? changeOf(options) : null;
    const client = await context.client();
    const dependency = await client.dependencies.set(name, change, { reason: options.reason });
    if (context.out.json) return context.out.document({ dependency });
    context.out.line(say`${name} now allows ${allowsText(dependency)}.`);
  });
}

function changeOf({ concurrency, rate, burst, quota, zone }: SetFlags): DependencyOptionsChange {
  const change: DependencyOptionsChange = {};
  if (concurrency !== undefined) change.concurrency = concurrency === "none" ? null : Number(concurrency);
  if (rate !== undefined) {
    const [limit = "", per = ""] = rate.split("/");
    change.rate =
      rate === "none"
        ? null
        : { limit: Number(limit), per, ...(burst === undefined ? {} : { burst: Number(burst) }) };
  } else if (burst !== undefined) throw new UsageError("--burst needs --rate.");
  if (quota !== undefined) {
    const [limit = "", per = ""] = quota.split("/");
    change.quota =
      quota === "none"
        ? null
        : { limit: Number(limit), per: per as QuotaPeriod, ...(zone === undefined ? {} : { zone }) };
  } else if (zone !== undefined) throw new UsageError("--zone needs --quota.");
  return change;
}

function rateText({ settings: { rate } }: DependencyStatus): string {
  return rate === undefined ? "" : `${rate.limit} / ${rate.perMs} ms`;
}

function allowsText(dependency: DependencyStatus): string {
  const { concurrency, rate, quota } = dependency.settings;
  const parts = [
    ...(concurrency === undefined ? [] : [`${concurrency.max} jobs at once`]),
    ...(rate === undefined ? [] : [`${rateText(dependency)} with bursts of ${rate.burst}`]),
    ...(quota === undefined ? [] : [`${quota.limit} each ${quota.per} (${quota.zone})`]),
  ];
  return parts.length === 0 ? "any number of jobs" : parts.join(", ");
}

function stateText({ isPaused, slowUntil }: DependencyStatus): string {
  if (isPaused) return "paused";
  return slowUntil === null ? "" : `slow until ${slowUntil.toISOString()}`;
}

const figure = (value: number | null): string => String(value ?? "");

const statusColumns: readonly Column<DependencyStatus>[] = [
  { title: "Dependency", cell: ({ name }) => paint("bold", name), most: 80 },
  {
    title: "Concurrency",
    align: "right",
    cell: ({ effectiveConcurrency: now, settings: { concurrency } }) =>
      concurrency === undefined ? "" : now === concurrency.max ? String(now) : `${now} of ${concurrency.max}`,
  },
  { title: "Running", align: "right", cell: ({ running }) => String(running) },
  { title: "Waiting", align: "right", cell: ({ waiting }) => String(waiting) },
  { title: "Rate", align: "right", cell: rateText },
  { title: "Tokens", align: "right", cell: ({ tokens }) => figure(tokens) },
  { title: "Quota left", align: "right", cell: ({ quotaLeft }) => figure(quotaLeft) },
  { title: "Status", cell: stateText },
  { title: "Kinds", cell: ({ kinds }) => kinds.join(", "), most: 48 },
];

const auditColumns: readonly Column<DependencyAuditEntry>[] = [
  { title: "Action", cell: ({ action }) => action },
  { title: "When", cell: ({ at }) => age(at) },
  { title: "Who", cell: ({ actor }) => actor, most: 48 },
  {
    title: "To",
    cell: ({ change }) => JSON.stringify(change["settings"]?.to ?? change["until"]?.to ?? null),
    most: 80,
  },
  { title: "Reason", cell: ({ reason }) => reason ?? "", most: Number.POSITIVE_INFINITY },
];
