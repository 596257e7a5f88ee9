import type { Command } from "commander";
import type { Limit, LimitAuditEntry, LimitKey } from "../../sql/limits.ts";
import { examples, runs, unknownCommand } from "../command.ts";
import { age } from "../job-text.ts";
import { paint, say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { toInteger } from "../values.ts";

export function addLimits(program: Command): void {
  const limits = program.command("limits").summary("how many jobs may run at once, and ordered keys");
  limits.description("Limits in force, the keys that jobs hold and wait for, and live changes.");
  addList(limits);
  addKeys(limits);
  addShow(limits);
  addSet(limits);
  addPass(limits);
}

function addList(limits: Command): void {
  const command = limits.command("list", { isDefault: true }).description("Every limit in force.");
  examples(command, "stint limits", "stint limits list --json");
  // A misspelt command arrives here as an argument, because this command is the default.
  command.allowExcessArguments();
  runs(command, async (context, { args: [misspelt] }) => {
    if (misspelt !== undefined) throw unknownCommand(limits, misspelt);
    const found = await (await context.client()).limits.list();
    if (context.out.json) return context.out.document({ limits: found });
    if (found.length === 0) return context.out.note(say`There are no limits.`);
    table(context.out, limitColumns, found);
  });
}

type KeysFlags = { name?: string; limit: string };

function addKeys(limits: Command): void {
  const command = limits
    .command("keys")
    .description("Keys that jobs hold or wait for, those with the most waiting jobs first.")
    .option("--name <limit>", "only the keys of this limit")
    .option("--limit <count>", "how many, at most 10,000", "100");
  examples(command, "stint limits keys", "stint limits keys --name key:account");
  runs<KeysFlags>(command, async (context, { options: { name, limit } }) => {
    const client = await context.client();
    const found = await client.limits.keys({
      ...(name === undefined ? {} : { name }),
      limit: toInteger(limit, "--limit"),
    });
    if (context.out.json) return context.out.document({ keys: found });
    if (found.length === 0) return context.out.note(say`No job holds or waits for a place.`);
    table(context.out, keyColumns, found);
  });
}

function addShow(limits: Command): void {
  const command = limits.command("show <name>").description("One limit, its keys, and who changed it.");
  examples(command, "stint limits show kind:charge");
  runs(command, async (context, { args: [name = ""] }) => {
    const client = (await context.client()).limits;
    const [all, keys, audit] = await Promise.all([client.list(), client.keys({ name }), client.audit(name)]);
    const limit = all.find((one) => one.name === name);
    if (limit === undefined && keys.length === 0 && audit.length === 0)
      throw new UsageError(`There is no limit ${name}.`);
    if (context.out.json) return context.out.document({ limit: limit ?? null, keys, audit });
    table(context.out, limitColumns, limit === undefined ? [] : [limit]);
    if (keys.length > 0) table(context.out, keyColumns, keys);
    if (audit.length > 0) table(context.out, auditColumns, audit);
  });
}

function addSet(limits: Command): void {
  const command = limits
    .command("set <name> <max>")
    .description(
      "Change a limit, or make one, at once. The change stays until a worker starts whose code declares another\n" +
        'value. "declared" returns to the value in code, or removes a limit that no code declares.',
    )
    .requiredOption("--reason <text>", "why, for the audit");
  examples(
    command,
    'stint limits set kind:charge 5 --reason "the provider allows more"',
    'stint limits set queue:imports 2 --reason "the disk is slow"',
    'stint limits set kind:charge declared --reason "incident is over"',
  );
  runs<{ reason: string }>(command, async (context, { options: { reason }, args: [name = "", max = ""] }) => {
    const value = max === "declared" ? null : toInteger(max, "max", ' or "declared"');
    const limit = await (await context.client()).limits.set(name, value, { reason });
    if (context.out.json) return context.out.document({ limit: limit ?? null });
    context.out.line(
      limit === undefined ? say`There is no limit ${name} now.` : say`${name} is now ${String(limit.max)}.`,
    );
  });
}

function addPass(limits: Command): void {
  const command = limits
    .command("pass <key>")
    .description("Let the jobs behind a dead job of an ordered key run.")
    .requiredOption("--reason <text>", "why, for the audit");
  examples(command, 'stint limits pass order:apply-event=42 --reason "booked by hand"');
  runs<{ reason: string }>(command, async (context, { options: { reason }, args: [key = ""] }) => {
    const job = await (await context.client()).limits.pass(key, { reason });
    if (context.out.json) return context.out.document({ key, job: job ?? null });
    context.out.line(
      job === undefined
        ? say`No dead job blocks ${key}.`
        : say`${key} continues without ${job}, which is dead.`,
    );
  });
}

const limitColumns: readonly Column<Limit>[] = [
  { title: "LIMIT", cell: ({ name }) => paint("bold", name), most: 80 },
  { title: "MAX", align: "right", cell: ({ max }) => String(max) },
  { title: "DECLARED", align: "right", cell: ({ declaredMax }) => String(declaredMax ?? "") },
  { title: "CHANGED", cell: ({ updatedAt }) => age(updatedAt) },
  { title: "BY", cell: ({ updatedBy }) => updatedBy, most: 48 },
];

const keyColumns: readonly Column<LimitKey>[] = [
  { title: "KEY", cell: ({ key }) => paint("bold", key), most: 80 },
  { title: "MAX", align: "right", cell: ({ max }) => String(max ?? "") },
  { title: "RUNNING", align: "right", cell: ({ held }) => String(held) },
  { title: "WAITING", align: "right", cell: ({ waiting }) => String(waiting) },
  { title: "WAITING SINCE", cell: ({ waitingSince }) => (waitingSince === null ? "" : age(waitingSince)) },
  { title: "TURN", cell: ({ holder }) => holder ?? "" },
];

const auditColumns: readonly Column<LimitAuditEntry>[] = [
  { title: "ACTION", cell: ({ action }) => action },
  { title: "WHEN", cell: ({ at }) => age(at) },
  { title: "WHO", cell: ({ actor }) => actor, most: 48 },
  { title: "MAX", cell: changeText },
  { title: "REASON", cell: ({ reason }) => reason ?? "", most: Number.POSITIVE_INFINITY },
];

function changeText({ change }: LimitAuditEntry): string {
  const { from, to } = change["max"] ?? {};
  const text = (value: unknown): string => (typeof value === "number" ? String(value) : "none");
  return `${text(from)} → ${text(to)}`;
}
