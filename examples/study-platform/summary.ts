/**
 * Conservation: every enqueued job has succeeded, is dead, was cancelled, or is still live. No job is lost, and no job
 * appears that was not enqueued.
 *
 * The platform's receipts are matched with Stint's public view, job by job. A single statement reads one snapshot, so the
 * comparison is exact even while workers are busy.
 */
import type { Pool } from "pg";
import { stintSchema } from "./database.ts";
import { queues } from "./jobs.ts";

const waitingStates = ["scheduled", "ready", "running", "retrying", "parked"] as const;

type Ended = "succeeded" | "dead" | "cancelled";
type Sum = Record<Ended | (typeof waitingStates)[number] | "enqueued" | "lost" | "unrecorded", number> & {
  queue: string;
};

const count = `
  with matched as (
    select coalesce(receipt.queue, jobs.queue) as queue, receipt.job as enqueued_job, jobs.id as found, jobs.state
    from study_demo.receipt
    full join ${stintSchema}.jobs on jobs.id = receipt.job
  )
  select
    queue,
    count(enqueued_job)::int as enqueued,
    (count(*) filter (where state = 'succeeded'))::int as succeeded,
    (count(*) filter (where state = 'dead'))::int as dead,
    (count(*) filter (where state = 'cancelled'))::int as cancelled,
    (count(*) filter (where state = 'scheduled'))::int as scheduled,
    (count(*) filter (where state = 'ready'))::int as ready,
    (count(*) filter (where state = 'running'))::int as running,
    (count(*) filter (where state = 'retrying'))::int as retrying,
    (count(*) filter (where state = 'parked'))::int as parked,
    (count(*) filter (where enqueued_job is not null and found is null))::int as lost,
    (count(*) filter (where found is not null and enqueued_job is null))::int as unrecorded
  from matched
  full join unnest($1::text[]) with ordinality as known (queue, place) using (queue)
  group by queue, place
  order by place`;

export async function summarize(pool: Pool): Promise<{ lines: string[]; addsUp: boolean }> {
  const { rows } = await pool.query<Sum>(count, [queues]);
  const addsUp = rows.every(balanced);
  return {
    addsUp,
    lines: [
      layOut(heading),
      ...rows.map((row) => `${layOut(equation(row))}${remark(row)}`),
      addsUp
        ? "It adds up: every job that was enqueued is accounted for, one by one."
        : "IT DOES NOT ADD UP. This is a bug in Stint: please report it with the lines above.",
    ],
  };
}

function balanced(row: Sum): boolean {
  const { enqueued, succeeded, dead, cancelled, lost, unrecorded } = row;
  return lost === 0 && unrecorded === 0 && enqueued === succeeded + dead + cancelled + waiting(row);
}

function waiting(row: Sum): number {
  return waitingStates.reduce((sum, state) => sum + row[state], 0);
}

function equation(row: Sum): string[] {
  const { queue, enqueued, succeeded, dead, cancelled } = row;
  return [
    queue,
    `${enqueued}`,
    "=",
    `${succeeded}`,
    "+",
    `${dead}`,
    "+",
    `${cancelled}`,
    "+",
    `${waiting(row)}`,
  ];
}

const heading = ["queue", "enqueued", "", "succeeded", "", "dead", "", "cancelled", "", "waiting"];
const widths = [13, 9, 2, 10, 2, 5, 2, 10, 2, 8];

function layOut(cells: readonly string[]): string {
  return cells
    .map((cell, index) => (index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0)))
    .join("");
}

function remark(row: Sum): string {
  const parts = waitingStates.flatMap((state) => (row[state] > 0 ? [`${row[state]} ${state}`] : []));
  if (row.lost > 0) parts.push(`${row.lost} LOST`);
  if (row.unrecorded > 0) parts.push(`${row.unrecorded} WITHOUT A RECEIPT`);
  return parts.length === 0 ? "" : `  ${parts.join(", ")}`;
}
