import type { Command } from "commander";
import { requireId } from "../../client/ids.ts";
import type { ListOptions } from "../../client/jobs.ts";
import { InvalidOptionError, StintError } from "../../errors.ts";
import type { Job } from "../../model/job.ts";
import type { Stint } from "../../stint.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { confirm } from "../confirm.ts";
import { age, attemptsText, detail, payloadText } from "../job-text.ts";
import { exitCodes, UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { say } from "../output.ts";

export function addDead(program: Command): void {
  const dead = program
    .command("dead")
    .summary("jobs that will not be tried again by themselves")
    .description("Jobs that will not be tried again by themselves.");
  addList(dead);
  addReplay(dead);
}

type Filter = Pick<ListOptions, "kind" | "queue">;

function addList(dead: Command): void {
  const command = dead.command("list").description("Dead jobs, newest first, with why they died.");
  command
    .option("--kind <kind>", "only this kind")
    .option("--queue <queue>", "only this queue")
    .option("--limit <n>", "jobs per page, at most 1000 (default 50)", integer)
    .option("--after <id>", "the page after this job");
  examples(command, "stint dead list", "stint dead list --kind send-receipt --json");
  runs<Filter & Pick<ListOptions, "limit" | "after">>(command, async (context, { options }) => {
    const page = await (await context.client()).list({ ...options, state: "dead" });
    if (context.out.json) return context.out.document({ jobs: page.jobs, next: page.next ?? null });
    if (page.jobs.length === 0) return context.out.note(say`Nothing is dead.`);
    table(context.out, columns, page.jobs);
    if (page.next !== undefined) context.out.note(say`There are more: add --after ${page.next}`);
  });
}

const columns: readonly Column<Job>[] = [
  { title: "ID", cell: (job) => job.id },
  { title: "KIND", cell: (job) => job.kind },
  { title: "QUEUE", cell: (job) => job.queue, most: 32 },
  { title: "DIED", cell: (job) => age(job.finishedAt) },
  { title: "ATTEMPTS", cell: attemptsText, align: "right" },
  { title: "WHY", cell: detail, most: 80 },
  { title: "PAYLOAD", cell: (job) => payloadText(job.payload), most: 40 },
];

type ReplayFlags = Filter & { all?: boolean; reason?: string; yes?: boolean; dryRun?: boolean };

function addReplay(dead: Command): void {
  const command = dead
    .command("replay [id...]")
    .description("Run dead jobs again, with fresh attempts. Say why: it is kept in the audit.");
  command
    .option("--reason <text>", "why, for the audit (needed)")
    .option("--all", "every dead job that is dead now, instead of named ones")
    .option("--kind <kind>", "with --all: only this kind")
    .option("--queue <queue>", "with --all: only this queue")
    .option("--dry-run", "only say how many it would be")
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
    const client = await context.client();
    const ids = options.all === true ? await idsOfDead(client, options) : [...new Set(named)];
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
    return await replayAll(context, client, ids, options.reason ?? "");
  });
}

function checkFlags({ all, kind, queue, reason, dryRun }: ReplayFlags, ids: readonly string[]): void {
  if (all === true && ids.length > 0) throw new UsageError("Give ids or --all, not both.");
  if (all !== true && ids.length === 0) throw new UsageError("Give the ids of dead jobs, or --all.");
  if (all !== true && (kind ?? queue) !== undefined)
    throw new UsageError("--kind and --queue go with --all.");
  if (dryRun !== true && reason === undefined) {
    throw new InvalidOptionError("--reason", "is needed: say why, for the people who will ask later");
  }
}

/** Every id before the first replay: a job that dies again meanwhile must not be replayed for ever. */
async function idsOfDead(client: Stint, { kind, queue }: Filter): Promise<string[]> {
  const filter = { ...(kind === undefined ? {} : { kind }), ...(queue === undefined ? {} : { queue }) };
  const ids: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await client.list({
      ...filter,
      state: "dead",
      limit: 1000,
      ...(after === undefined ? {} : { after }),
    });
    ids.push(...page.jobs.map((job) => job.id));
    after = page.next;
    if (after === undefined) return ids;
  }
}

async function replayAll(
  { out }: Context,
  client: Stint,
  ids: readonly string[],
  reason: string,
): Promise<number> {
  const replayed: string[] = [];
  const failed: { id: string; code: string; message: string }[] = [];
  for (const id of ids) {
    try {
      await client.replay(id, { reason });
      replayed.push(id);
    } catch (error) {
      // One that somebody else replayed first must not keep the rest; a database that is away must.
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
  return count === 1 ? "1 dead job" : `${count} dead jobs`;
}
