import type { Command } from "commander";
import type { PauseOptions } from "../../client/pauses.ts";
import { pauseScopes, type Pause, type PauseTarget } from "../../model/pause.ts";
import { requireOneOf } from "../../model/options.ts";
import { examples, runs } from "../command.ts";
import { age } from "../job-text.ts";
import { warnOfMisspelling } from "../misspelling.ts";
import { say } from "../output.ts";
import { table, type Column } from "../table.ts";
import { toDate } from "../values.ts";

const reason = ["--reason <text>", "why, for the audit"] as const;

type PauseFlags = { reason: string; for?: string; until?: string };

export function addPause(program: Command): void {
  const command = program
    .command("pause <scope> <name>")
    .summary("pause a queue, a kind, a tenant, a key or a dependency")
    .description(
      `Start no further job of a ${scopesText()}. Enqueueing continues, and running jobs finish.\n` +
        "Queues and kinds may be patterns, such as 'tenant-*'.",
    )
    .requiredOption(...reason)
    .option("--for <duration>", "how long (default: until stint resume)")
    .option("--until <time>", "when it ends by itself, such as 2030-01-31T12:00:00Z");
  examples(
    command,
    'stint pause queue emails --reason "the mail provider is down"',
    'stint pause tenant acme --for 2h --reason "import of bad data"',
  );
  runs<PauseFlags>(command, async (context, { options, args: [scope, name = ""] }) => {
    const target = targetOf(scope, name);
    const act: PauseOptions = { reason: options.reason };
    if (options.for !== undefined) act.for = options.for as NonNullable<PauseOptions["for"]>;
    if (options.until !== undefined) act.until = toDate(options.until, "--until");
    const { pauses } = await context.client();
    await pauses.pause(target, act);
    const found = (await pauses.list()).find((one) => one.scope === scope && one.name === name);
    if (context.out.json) context.out.document(found ?? { scope, name });
    else context.out.line(say`Paused ${scope ?? ""} ${name}${untilText(found?.until ?? null)}.`);
    // The pause is in force: a slow server must not make the command fail.
    if (scope === "queue" || scope === "kind" || scope === "dependency")
      await warnOfMisspelling(context, scope, name).catch(() => undefined);
  });
}

export function addResume(program: Command): void {
  const command = program
    .command("resume <scope> <name>")
    .summary("end a pause")
    .description("End a pause: the jobs start again.")
    .requiredOption(...reason);
  examples(command, 'stint resume queue emails --reason "the mail provider is back"');
  runs<{ reason: string }>(command, async (context, { options, args: [scope, name = ""] }) => {
    const { pauses } = await context.client();
    const resumed = await pauses.resume(targetOf(scope, name), { reason: options.reason });
    if (context.out.json) return context.out.document({ scope, name, resumed });
    context.out.line(
      resumed ? say`Resumed ${scope ?? ""} ${name}.` : say`${scope ?? ""} ${name} was not paused.`,
    );
  });
}

export function addPauses(program: Command): void {
  const command = program
    .command("pauses")
    .summary("what is paused, since when, by whom and why")
    .description("What is paused, since when, until when, by whom and why.");
  examples(command, "stint pauses", "stint pauses --json");
  runs(command, async (context) => {
    const found = await (await context.client()).pauses.list();
    if (context.out.json) return context.out.document({ pauses: found });
    if (found.length === 0) return context.out.note(say`Nothing is paused.`);
    table(context.out, columns, found);
  });
}

function targetOf(scope: string | undefined, name: string): PauseTarget {
  return { [requireOneOf("scope", scope, pauseScopes)]: name } as PauseTarget;
}

function scopesText(): string {
  return `${pauseScopes.slice(0, -1).join(", a ")} or a ${pauseScopes.at(-1) ?? ""}`;
}

function untilText(until: Date | null): string {
  return until === null ? "" : ` until ${until.toISOString()}`;
}

const columns: readonly Column<Pause>[] = [
  { title: "PAUSED", cell: ({ scope, name }) => `${scope} ${name}` },
  { title: "WHEN", cell: ({ pausedAt }) => age(pausedAt) },
  { title: "UNTIL", cell: ({ until }) => until?.toISOString() ?? "resumed" },
  { title: "WHO", cell: ({ pausedBy }) => pausedBy, most: 48 },
  { title: "PARKED", cell: ({ parkedJobs }) => (parkedJobs === 0 ? "" : String(parkedJobs)), align: "right" },
  { title: "REASON", cell: (pause) => pause.reason, most: Number.POSITIVE_INFINITY },
];
