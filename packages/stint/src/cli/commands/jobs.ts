import type { Command } from "commander";
import { JobNotFoundError } from "../../errors.ts";
import { statesFor } from "../../inspect/filter.ts";
import type { BulkAction } from "../../inspect/types.ts";
import { actInBulk, type BulkFlags } from "../bulk.ts";
import { examples, integer, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { inspecting } from "../inspecting.ts";
import { addFilter, toFilter, type FilterFlags } from "../job-filter.ts";
import { jobRowColumns } from "../job-row.ts";
import { say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { showJob } from "../show-job.ts";
import { showSteps } from "../show-steps.ts";
import { table } from "../table.ts";
import { wholePage } from "../whole-page.ts";
import { addChange } from "./jobs-change.ts";
import { addComplete } from "./jobs-complete.ts";
import { addTail } from "./jobs-tail.ts";
import { addWhy } from "./jobs-why.ts";

export function addJobs(program: Command): void {
  const jobs = program
    .command("jobs")
    .summary("look at jobs, and act on one or on many")
    .description("Show jobs, and act on one or on many.");
  addList(jobs);
  addShow(jobs);
  addWhy(jobs);
  addTail(jobs);
  addCancel(jobs);
  addRunNow(jobs);
  addReplay(jobs);
  addComplete(jobs);
  addChange(jobs);
}

type ListFlags = FilterFlags & { limit?: number; after?: string };

function addList(jobs: Command): void {
  const command = jobs.command("list").description("Jobs, newest first, a page at a time.");
  addFilter(command)
    .option("--limit <n>", "jobs per page, at most 1000 (default 50)", integer)
    .option("--after <next>", "the page after the one that named this");
  examples(
    command,
    "stint jobs list --state ready,running --queue mail",
    'stint jobs list --state dead --error "ECONNREFUSED" --since 2h',
    "stint jobs list --json | jq -r '.jobs[].id'",
  );
  runs<ListFlags>(command, async (context, { options }) => {
    const { limit, after } = options;
    const { out } = context;
    const page = await inspecting(context, (inspector) =>
      wholePage(out, inspector, {
        ...toFilter(options),
        ...(limit === undefined ? {} : { limit }),
        ...(after === undefined ? {} : { after }),
      }),
    );
    if (out.json) return out.document(page);
    if (page.jobs.length > 0) table(out, jobRowColumns, page.jobs);
    else if (!page.partial) return out.note(say`No such job.`);
    if (page.next === null) return;
    if (page.partial) out.note(say`The search was stopped. To continue: add --after ${page.next}`);
    else out.note(say`There may be more: add --after ${page.next}`);
  });
}

function addShow(jobs: Command): void {
  const command = jobs
    .command("show <id>")
    .description(
      "Everything about one job: each attempt with its error, the audit, its steps, progress and log.",
    );
  examples(command, "stint jobs show 019a8a2c-1f00-7000-8000-0123456789ab");
  runs(command, async (context, { args: [id = ""] }) => {
    const client = await context.client();
    const [job, audit, steps] = await Promise.all([client.get(id), client.audit(id), client.steps(id)]);
    if (job === undefined) throw new JobNotFoundError(id);
    if (context.out.json) return context.out.document({ ...job, audit, ...steps });
    showJob(context.out, job, audit);
    showSteps(context.out, steps);
  });
}

function addCancel(jobs: Command): void {
  const command = jobs
    .command("cancel [id]")
    .description("Cancel waiting jobs, and request workers to stop running ones: one by its id, or many.");
  examples(
    command,
    'stint jobs cancel 019a8a2c-1f00-7000-8000-0123456789ab --reason "order withdrawn"',
    'stint jobs cancel --tenant acme --state scheduled --reason "left us"',
  );
  oneOrMany(command, "cancel", async (context, id, reason) => {
    const outcome = await (await context.client()).cancel(id, reason);
    if (context.out.json) return context.out.document({ id, outcome });
    if (outcome === "cancelled") context.out.line(say`Cancelled ${id}.`);
    else context.out.line(say`Asked the worker that runs ${id} to stop. No further attempt starts.`);
  });
}

function addRunNow(jobs: Command): void {
  const command = jobs
    .command("run-now [id]")
    .description("Make scheduled, retrying or parked jobs ready at once: one by its id, or many.");
  examples(
    command,
    "stint jobs run-now 019a8a2c-1f00-7000-8000-0123456789ab",
    'stint jobs run-now --state retrying --kind send-receipt --reason "mail server is back"',
  );
  oneOrMany(command, "run-now", async (context, id, reason) => {
    await (await context.client()).runNow(id, reason);
    if (context.out.json) return context.out.document({ id, state: "ready" });
    context.out.line(say`${id} is ready.`);
  });
}

function addReplay(jobs: Command): void {
  const command = jobs
    .command("replay [id]")
    .description("Requeue dead or cancelled jobs with a fresh set of attempts: one by its id, or many.");
  examples(
    command,
    'stint jobs replay 019a8a2c-1f00-7000-8000-0123456789ab --reason "payment was imported late"',
    'stint jobs replay --error ECONNREFUSED --since 6h --reason "mail server is back" --dry-run',
  );
  oneOrMany(command, "replay", async (context, id, { reason }) => {
    await (await context.client()).replay(id, reason === undefined ? ({} as { reason: string }) : { reason });
    if (context.out.json) return context.out.document({ id, state: "ready" });
    context.out.line(say`Replayed ${id}.`);
  });
}

type ActFlags = FilterFlags & BulkFlags;
type ActOnOne = (context: Context, id: string, reason: { reason?: string }) => Promise<void>;

/** With an id it acts on that job; without one on all that the filter names. */
function oneOrMany(command: Command, action: BulkAction, actOnOne: ActOnOne): void {
  addFilter(command, statesFor[action])
    .option("--all", "every job in a state that allows it, without any filter")
    .option("--reason <text>", "why, for the audit (required for many)")
    .option("--dry-run", "only show what would be done")
    .option("--yes", "do not ask (required for many without a terminal)");
  runs<ActFlags>(command, async (context, { options, args: [id] }) => {
    const { all = false, reason, dryRun = false } = options;
    const filter = toFilter(options);
    const filtered = Object.keys(filter).length > 0;
    if (id !== undefined) {
      if (filtered || all || dryRun)
        throw new UsageError("Give an id, or say which jobs by options; not both.");
      return await actOnOne(context, id, reason === undefined ? {} : { reason });
    }
    if (all && filtered) throw new UsageError("--all goes without any filter.");
    if (!all && !filtered) {
      throw new UsageError("Give the id of a job; or say which jobs, as with --kind and --queue; or --all.");
    }
    return await actInBulk(context, action, filter, options);
  });
}
