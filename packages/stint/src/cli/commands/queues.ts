import type { Command } from "commander";
import { formatMs } from "../../model/duration.ts";
import type { QueueCounts } from "../../sql/queues.ts";
import type { LiveWorker } from "../../sql/workers.ts";
import { examples, runs } from "../command.ts";
import { say, paint, type Piece, type Style } from "../output.ts";
import { table, type Column } from "../table.ts";

type QueueRow = QueueCounts & {
  /** Slots of all workers that serve it. */
  slots: number;
};

export function addQueues(program: Command): void {
  const command = program.command("queues").summary("how many jobs each queue holds, by state");
  command.description(
    "How many jobs each queue holds, by state, and how long its oldest ready job has waited.\n" +
      "It reads all live jobs: for people, not for a monitor that asks every second.",
  );
  examples(command, "stint queues", "stint queues --json");
  runs(command, async (context) => {
    const client = await context.client();
    const [counts, workers] = await Promise.all([client.queues(), client.workers()]);
    const rows = withSlots(counts, workers);
    if (context.out.json) return context.out.document({ queues: rows });
    if (rows.length === 0) return context.out.note(say`No queue holds a job, and no worker serves one.`);
    table(context.out, columns, rows);
    warnUnserved(rows, (queue) => context.out.note(say`No worker serves queue ${queue}, where jobs wait.`));
  });
}

const columns: readonly Column<QueueRow>[] = [
  { title: "QUEUE", cell: (row) => row.queue },
  {
    title: "OLDEST READY",
    cell: (row) => (row.oldestReadyMs === null ? "" : formatMs(row.oldestReadyMs)),
    align: "right",
  },
  { title: "READY", cell: (row) => count(row.ready, "blue"), align: "right" },
  { title: "RUNNING", cell: (row) => count(row.running, "yellow"), align: "right" },
  { title: "RETRYING", cell: (row) => count(row.retrying, "magenta"), align: "right" },
  { title: "SCHEDULED", cell: (row) => count(row.scheduled, "cyan"), align: "right" },
  { title: "PARKED", cell: (row) => count(row.parked, "gray"), align: "right" },
  { title: "DEAD", cell: (row) => count(row.dead, "red"), align: "right" },
  { title: "SLOTS", cell: (row) => row.slots, align: "right" },
];

function count(number: number, style: Style): Piece {
  return paint(number === 0 ? "dim" : style, String(number));
}

function withSlots(counts: readonly QueueCounts[], workers: readonly LiveWorker[]): QueueRow[] {
  const slots = new Map<string, number>();
  for (const { pools } of workers) {
    for (const [queue, number] of Object.entries(pools)) slots.set(queue, (slots.get(queue) ?? 0) + number);
  }
  const counted = new Set(counts.map((row) => row.queue));
  const idle = [...slots.keys()].filter((queue) => !counted.has(queue)).map(empty);
  return [...counts, ...idle]
    .map((row) => Object.assign({}, row, { slots: slots.get(row.queue) ?? 0 }))
    .sort((a, b) => a.queue.localeCompare(b.queue, "en"));
}

function empty(queue: string): QueueCounts {
  return { queue, scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0, oldestReadyMs: null };
}

function warnUnserved(rows: readonly QueueRow[], warn: (queue: string) => void): void {
  for (const row of rows) if (row.slots === 0 && row.ready > 0) warn(row.queue);
}
