import { Option, type Command } from "commander";
import type { Migration, MigrationStatus } from "../../db/migrate.ts";
import { InvalidOptionError } from "../../errors.ts";
import { migrateHint } from "../../sql/schema-version.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { age } from "../job-text.ts";
import { say, paint } from "../output.ts";
import { exitCodes, UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";

type Flags = { status?: boolean; sql?: boolean; since?: number; dryRun?: boolean };

export function addMigrate(program: Command): void {
  const command = program.command("migrate").summary("migrate the schema to this release");
  command
    .description("Migrate the schema to this release. Safe to run twice, and from several places at once.")
    .addOption(
      new Option("--status", "only print which steps are applied; exits with 1 if some are not").conflicts([
        "sql",
        "dryRun",
      ]),
    )
    .addOption(
      new Option("--sql", "print the SQL, for your own tool; no database is needed").conflicts("dryRun"),
    )
    .option("--since <n>", "with --sql: only steps after this version", integer)
    .option("--dry-run", "only print which steps would be applied");
  examples(command, "stint migrate", "stint migrate --status", "stint migrate --sql --since 1 > stint.sql");
  runs<Flags>(command, async (context, { options }) => {
    if (options.since !== undefined && options.sql !== true) throw new UsageError("--since goes with --sql.");
    if (options.sql === true) return await printSql(context, options.since ?? 0);
    if (options.status === true) return await printStatus(context);
    return options.dryRun === true ? await printPending(context) : await apply(context);
  });
}

async function apply(context: Context): Promise<void> {
  const { out } = context;
  const { migrate } = await import("../../db/migrate.ts");
  const schema = await context.schema();
  const applied = await migrate({
    connection: await context.database(),
    schema,
    onStep: (step) => out.note(say`Applied ${stepText(step)}`),
  });
  if (out.json) return out.document({ schema, applied: applied.map(toStepDocument) });
  if (applied.length === 0) out.line(say`Schema ${schema} is up to date.`);
  else out.line(say`Schema ${schema} is up to date: ${applied.length} applied.`);
}

async function printStatus(context: Context): Promise<number> {
  const schema = await context.schema();
  const steps = await status(context, schema);
  const pending = steps.filter((step) => step.appliedAt === null);
  const { out } = context;
  if (out.json) out.document({ schema, pending: pending.length, steps: steps.map(toStepDocument) });
  else table(out, columns, steps);
  if (pending.length === 0) return exitCodes.ok;
  out.note(say`Schema ${schema} lacks ${pending.length}. ${migrateHint(schema)}.`);
  return exitCodes.failed;
}

const columns: readonly Column<MigrationStatus>[] = [
  { title: "VERSION", cell: (step) => step.version, align: "right" },
  { title: "NAME", cell: (step) => step.name },
  {
    title: "APPLIED",
    cell: (step) => (step.appliedAt === null ? paint("yellow", "not yet") : age(step.appliedAt)),
  },
];

async function printPending(context: Context): Promise<void> {
  const schema = await context.schema();
  const pending = (await status(context, schema)).filter((step) => step.appliedAt === null);
  const { out } = context;
  if (out.json) return out.document({ schema, wouldApply: pending.map(toStepDocument) });
  if (pending.length === 0) out.line(say`Schema ${schema} is up to date.`);
  for (const step of pending) out.line(say`Would apply ${stepText(step)}`);
}

async function printSql(context: Context, since: number): Promise<void> {
  const { migrationSql, readMigrations } = await import("../../db/migrate.ts");
  const newest = readMigrations().at(-1)?.version ?? 0;
  if (since < 0 || since > newest)
    throw new InvalidOptionError("--since", `must be from 0 to ${newest}, the newest step, got ${since}`);
  const schema = await context.schema();
  const text = await migrationSql(schema, since);
  if (context.out.json) context.out.document({ schema, since, sql: text });
  else context.out.script(text);
}

async function status(context: Context, schema: string): Promise<MigrationStatus[]> {
  const { migrationStatus } = await import("../../db/migrate.ts");
  return await migrationStatus({ connection: await context.database(), schema });
}

function toStepDocument(step: Migration & { appliedAt?: Date | null }): object {
  const { version, name, appliedAt } = step;
  return { version, name, ...(appliedAt === undefined ? {} : { appliedAt }) };
}

function stepText({ version, name }: Migration): string {
  return `${version} ${name}`;
}
