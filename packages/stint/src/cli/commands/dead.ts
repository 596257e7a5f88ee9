import type { Command } from "commander";
import { plural } from "../../model/figures.ts";
import { requireId } from "../../client/ids.ts";
import { InvalidOptionError, StintError } from "../../errors.ts";
import type { DeadGroups, Inspector, JobRow } from "../../inspect/types.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { confirm } from "../confirm.ts";
import { deadGroupColumns, leftOut } from "../dead-groups.ts";
import { inspecting } from "../inspecting.ts";
import { rowDetail } from "../job-row.ts";
import { age, attemptsText } from "../job-text.ts";
import { exitCodes, UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { say } from "../output.ts";
import { wholePage } from "../whole-page.ts";

export function addDead(program: Command): void {
  const dead = program
    .command("dead")
    .summary("jobs that won't be retried automatically")
    .description("Jobs that won't be retried automatically.");
  addList(dead);
  addReplay(dead);
}

type Filter = { kind?: string; queue?: string };

function addList(dead: Command): void {
  const command = dead
    .command("list")
    .description("Errors of the newest dead jobs, then the jobs themselves, newest first.");
  command
    .option("--kind <kind>", "only this kind; * matches any characters, as in 'read-*'")
    .option("--queue <queue>", "only this queue")
    .option("--fingerprint <fingerprint>", "only dead jobs of this group")
    .option("--limit <n>", "jobs per page, at most 1000 (default 50)", integer)
    .option("--after <id>", "the page after this job");
  examples(command, "stint dead list", "stint dead list --kind send-receipt --json");
  runs<ListFlags>(command, async (context, { options }) => {
    const { fingerprint, after, kind, queue } = options;
    const filter = { ...(kind === undefined ? {} : { kind }), ...(queue === undefined ? {} : { queue }) };
    // Those who turn a page, or look into one group, have seen them.
    const wantsGroups = after === undefined && fingerprint === undefined;
    const [groups, page] = await inspecting(
      context,
      async (inspector) =>
        await Promise.all([
          wantsGroups ? inspector.deadGroups(filter) : undefined,
          wholePage(context.out, inspector, { ...options, state: "dead" }),
        ]),
    );
    if (context.out.json) return context.out.document({ ...groups, ...page });
    if (groups !== undefined && groups.groups.length > 0) showGroups(context, groups);
    if (page.jobs.length > 0) table(context.out, columns, page.jobs);
    else if (!page.partial) context.out.note(say`Nothing is dead.`);
    if (page.next !== null)
      context.out.note(say`There ${page.partial ? "may be" : "are"} more: add --after ${page.next}`);
  });
}

type ListFlags = Filter & { fingerprint?: string; limit?: number; after?: string };

function showGroups({ out }: Context, groups: DeadGroups): void {
  table(out, deadGroupColumns, groups.groups);
  const left = leftOut(groups);
  if (left !== undefined) out.note(say`${left}`);
  out.line(say``);
}

const columns: readonly Column<JobRow>[] = [
  { title: "ID", cell: (job) => job.id },
  { title: "KIND", cell: (job) => job.kind },
  { title: "QUEUE", cell: (job) => job.queue, most: 32 },
  { title: "DIED", cell: (job) => age(job.finishedAt) },
  { title: "ATTEMPTS", cell: attemptsText, align: "right" },
  { title: "KEY", cell: (job) => job.key ?? "", most: 32 },
  { title: "REASON", cell: rowDetail, most: 100 },
];

type ReplayFlags = Filter & {
  fingerprint?: string;
  all?: boolean;
  reason?: string;
  yes?: boolean;
  dryRun?: boolean;
};

function addReplay(dead: Command): void {
  const command = dead
    .command("replay [id...]")
    .description("Run dead jobs again, with fresh attempts. The reason is recorded in the audit log.");
  command
    .option("--reason <text>", "why, for the audit (needed)")
    .option("--all", "every dead job that is dead now, instead of named ones")
    .option("--kind <kind>", "with --all: only this kind; * matches any characters")
    .option("--queue <queue>", "with --all: only this queue")
    .option(
      "--fingerprint <fingerprint>",
      "with --all: only dead jobs of this group, as `stint dead list` names it",
    )
    .option("--dry-run", "only print how many jobs match")
    .option("--yes", "do not ask (needed for --all without a terminal)");
  examples(
    command,
    'stint dead replay 019a8a2c-1f00-7000-8000-0123456789ab --reason "mail server is back"',
    'stint dead replay --all --kind send-receipt --reason "mail server is back" --yes',
  );
  runs<ReplayFlags>(command, async (context, { options, args }) => {
    checkFlags(options, args);
    // All of them before the first is replayed: a mistyped id means that the command line is wrong.
    const named = args.map((id) => requireId(id, "<id>"));
    const ids =
      options.all === true
        ? await inspecting(context, async (inspector) => await idsOfDead(inspector, options))
        : [...new Set(named)];
    if (options.dryRun === true) {
      if (context.out.json) return context.out.document({ wouldReplay: ids.length });
      return context.out.line(say`Would replay ${jobs(ids.length)}.`);
    }
    if (options.all === true && ids.length > 0) {
      const asked = await confirm(`Replay ${jobs(ids.length)}?`, {
        yes: options.yes === true,
        json: context.out.json,
      });
      if (!asked) return context.out.note(say`Nothing was replayed.`);
    }
    return await replayAll(context, ids, options.reason ?? "");
  });
}

function checkFlags(flags: ReplayFlags, ids: readonly string[]): void {
  const { all, kind, queue, fingerprint, reason, dryRun } = flags;
  if (all === true && ids.length > 0) throw new UsageError("Give ids or --all, not both.");
  if (all !== true && ids.length === 0) throw new UsageError("Give the ids of dead jobs, or --all.");
  if (all !== true && (kind ?? queue ?? fingerprint) !== undefined)
    throw new UsageError("--kind, --queue and --fingerprint go with --all.");
  if (dryRun !== true && reason === undefined) {
    throw new InvalidOptionError("--reason", "is required: say why, for the people who read the audit later");
  }
}

/** Every id before the first replay: a job that dies again meanwhile must not be replayed for ever. */
async function idsOfDead(inspector: Inspector, flags: ReplayFlags): Promise<string[]> {
  const { kind, queue, fingerprint } = flags;
  const filter = {
    state: "dead" as const,
    ...(kind === undefined ? {} : { kind }),
    ...(queue === undefined ? {} : { queue }),
    ...(fingerprint === undefined ? {} : { fingerprint }),
  };
  const ids: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await inspector.jobs({ ...filter, limit: 1000, ...(after === undefined ? {} : { after }) });
    ids.push(...page.jobs.map((job) => job.id));
    if (page.next === null) return ids;
    after = page.next;
  }
}

async function replayAll(context: Context, ids: readonly string[], reason: string): Promise<number> {
  const { out } = context;
  const client = await context.client();
  const replayed: string[] = [];
  const failed: { id: string; code: string; message: string }[] = [];
  for (const id of ids) {
    try {
      await client.replay(id, { reason });
      replayed.push(id);
    } catch (error) {
      // A job that another session replayed first must not stop the rest; an unreachable database must.
      if (!(error instanceof StintError) || error.code === "DATABASE_UNAVAILABLE") throw error;
      failed.push({ id, code: error.code, message: error.message });
    }
  }
  if (out.json) out.document({ replayed, failed });
  else {
    out.line(say`Replayed ${jobs(replayed.length)}.`);
    for (const { message, code } of failed) out.note(say`Not replayed: ${message} [${code}]`);
  }
  return failed.length === 0 ? exitCodes.ok : exitCodes.failed;
}

function jobs(count: number): string {
  return plural(count, "dead job");
}
