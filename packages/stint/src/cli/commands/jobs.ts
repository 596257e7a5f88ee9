import type { Command } from "commander";
import type { ListOptions, Page } from "../../client/jobs.ts";
import { JobNotFoundError } from "../../errors.ts";
import type { Job } from "../../model/job.ts";
import { states, type JobState } from "../../model/state.ts";
import { examples, integer, listed, runs } from "../command.ts";
import { age, attemptsText, detail, payloadText, stateText } from "../job-text.ts";
import { showJob } from "../show-job.ts";
import { table, type Column } from "../table.ts";
import { say } from "../output.ts";

export function addJobs(program: Command): void {
  const jobs = program
    .command("jobs")
    .summary("look at jobs, and act on single ones")
    .description("Look at jobs, and act on single ones.");
  addList(jobs);
  addShow(jobs);
  addCancel(jobs);
  addRunNow(jobs);
}

type ListFlags = Omit<ListOptions, "state"> & { state?: JobState[] };

function addList(jobs: Command): void {
  const command = jobs.command("list").description("Jobs, newest first, a page at a time.");
  command
    .option("--state <states>", `only these, separated by commas: ${states.join(", ")}`, listed)
    .option("--kind <kind>", "only this kind")
    .option("--queue <queue>", "only this queue")
    .option("--key <key>", "only this business key")
    .option("--tenant <tenant>", "only this tenant")
    .option("--tag <tag>", "only jobs with this tag")
    .option("--limit <n>", "jobs per page, at most 1000 (default 50)", integer)
    .option("--after <id>", "the page after this job");
  examples(
    command,
    "stint jobs list --state ready,running --queue mail",
    "stint jobs list --json | jq -r '.jobs[].id'",
  );
  runs<ListFlags>(command, async (context, { options }) => {
    const page = await (await context.client()).list(options);
    if (context.out.json) return context.out.document({ jobs: page.jobs, next: page.next ?? null });
    if (page.jobs.length === 0) return context.out.note(say`No such job.`);
    table(context.out, columns, page.jobs);
    if (page.next !== undefined) context.out.note(say`There are more: add --after ${page.next}`);
  });
}

function addShow(jobs: Command): void {
  const command = jobs
    .command("show <id>")
    .description("Everything about one job: each attempt with its error, and who did what to it.");
  examples(command, "stint jobs show 019a8a2c-1f00-7000-8000-0123456789ab");
  runs(command, async (context, { args: [id = ""] }) => {
    const client = await context.client();
    const [job, audit] = await Promise.all([client.get(id), client.audit(id)]);
    if (job === undefined) throw new JobNotFoundError(id);
    if (context.out.json) return context.out.document({ ...job, audit });
    showJob(context.out, job, audit);
  });
}

function addCancel(jobs: Command): void {
  const command = jobs
    .command("cancel <id>")
    .description("End a job that waits, or ask the worker that runs it to stop.");
  command.option("--reason <text>", "why, for the audit");
  examples(command, 'stint jobs cancel 019a8a2c-1f00-7000-8000-0123456789ab --reason "order withdrawn"');
  runs<{ reason?: string }>(command, async (context, { options, args: [id = ""] }) => {
    const outcome = await (await context.client()).cancel(id, options);
    if (context.out.json) return context.out.document({ id, outcome });
    if (outcome === "cancelled") context.out.line(say`Cancelled ${id}.`);
    else context.out.line(say`Asked the worker that runs ${id} to stop. No further attempt starts.`);
  });
}

function addRunNow(jobs: Command): void {
  const command = jobs
    .command("run-now <id>")
    .description("Make a job that waits for its time or its retry ready at once.");
  command.option("--reason <text>", "why, for the audit");
  examples(command, "stint jobs run-now 019a8a2c-1f00-7000-8000-0123456789ab");
  runs<{ reason?: string }>(command, async (context, { options, args: [id = ""] }) => {
    await (await context.client()).runNow(id, options);
    if (context.out.json) return context.out.document({ id, state: "ready" });
    context.out.line(say`${id} is ready.`);
  });
}

const columns: readonly Column<Page["jobs"][number]>[] = [
  { title: "ID", cell: (job: Job) => job.id },
  { title: "KIND", cell: (job) => job.kind },
  { title: "QUEUE", cell: (job) => job.queue, most: 32 },
  { title: "STATE", cell: (job) => stateText(job.state) },
  { title: "ATTEMPTS", cell: attemptsText, align: "right" },
  { title: "CREATED", cell: (job) => age(job.createdAt) },
  { title: "KEY", cell: (job) => job.key ?? "", most: 32 },
  { title: "DETAIL", cell: detail, most: 60 },
  { title: "PAYLOAD", cell: (job) => payloadText(job.payload), most: 60 },
];
