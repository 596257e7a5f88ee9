import type { Command } from "commander";
import type { QueueHealth } from "../../inspect/types.ts";
import { examples, runs } from "../command.ts";
import { depthColumns } from "../depth-columns.ts";
import { breach, duration, rate } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { say } from "../output.ts";
import { table, type Column } from "../table.ts";

export function addQueues(program: Command): void {
  const command = program.command("queues").summary("how many jobs each queue holds, by state");
  command.description(
    "How many jobs each queue holds, by state, how long its oldest ready job has waited, and who serves it.\n" +
      "It reads tallies and counts nothing, so a monitor may call it.",
  );
  examples(command, "stint queues", "stint queues --json");
  runs(command, async (context) => {
    const { queues } = await inspecting(context, (inspector) => inspector.health());
    const rows = queues.toSorted((a, b) => a.queue.localeCompare(b.queue, "en"));
    if (context.out.json) return context.out.document({ queues: rows.map(asDocument) });
    if (rows.length === 0) return context.out.note(say`No queue holds a job, and no worker serves one.`);
    table(context.out, columns, rows);
    for (const { queue, depth, workers } of rows)
      if (workers === 0 && depth.ready > 0)
        context.out.note(say`No worker serves queue ${queue}, where jobs wait.`);
  });
}

const columns: readonly Column<QueueHealth>[] = [
  { title: "QUEUE", cell: (row) => row.queue },
  { title: "OLDEST READY", cell: (row) => duration(row.oldestReadyMs), align: "right" },
  ...depthColumns,
  { title: "IN/S", cell: ({ rates }) => rate(rates.arrived), align: "right" },
  { title: "OUT/S", cell: ({ rates }) => rate(rates.ended), align: "right" },
  { title: "BREACH IN", cell: (row) => breach(row.breachInMs), align: "right" },
  { title: "SLOTS", cell: ({ slots }) => slots.total, align: "right" },
];

/** Depths stand beside the queue's name, as they did before there was more to say. */
function asDocument({ queue, depth, slots, ...rest }: QueueHealth): object {
  const { recent: _, ...shown } = rest;
  return { queue, ...depth, slots: slots.total, busy: slots.busy, ...shown };
}
