import type { Command } from "commander";
import type { QueueHealth } from "../../inspect/types.ts";
import { examples, runs, unknownCommand } from "../command.ts";
import { depthColumns } from "../depth-columns.ts";
import { count, duration, lateIn, rate, slotsText } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { paint, say, type Piece } from "../output.ts";
import { table, type Column } from "../table.ts";
import { addForget, addSet, addShow } from "./queue-settings.ts";

export function addQueues(program: Command): void {
  const queues = program
    .command("queues")
    .summary("queues with their depth, age and target, and their settings")
    .description("Show queues, and change their settings. Without a command it lists the queues.");
  addList(queues);
  addShow(queues);
  addSet(queues);
  addForget(queues);
}

function addList(queues: Command): void {
  const command = queues
    .command("list", { isDefault: true })
    .description(
      "How many jobs each queue holds, by state, how long its oldest ready job has waited, and its target.\n" +
        "It reads tallies and counts no rows, so a monitor may call it.",
    );
  examples(command, "stint queues", "stint queues --json");
  // A misspelt command arrives here as an argument, because this command is the default.
  command.allowExcessArguments();
  runs(command, async (context, { args: [misspelt] }) => {
    if (misspelt !== undefined) throw unknownCommand(queues, misspelt);
    const { queues: found } = await inspecting(context, (inspector) => inspector.health());
    const rows = found.toSorted((a, b) => a.queue.localeCompare(b.queue, "en"));
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
  { title: "ARRIVED", cell: ({ rates }) => rate(rates.arrived), align: "right" },
  { title: "ENDED", cell: ({ rates }) => rate(rates.ended), align: "right" },
  { title: "TARGET", cell: target, align: "right" },
  { title: "LATE IN", cell: (row) => lateIn(row), align: "right" },
  { title: "SERVING", cell: ({ workers }) => count(workers, "green"), align: "right" },
  { title: "SLOTS", cell: slotsText, align: "right" },
];

/** A target that no person or code has set is dim; one that was changed live says so. */
function target({ targetMs, targetFrom: { source } }: QueueHealth): Piece {
  if (source === "default") return paint("dim", duration(targetMs));
  return source === "live" ? `${duration(targetMs)} (live)` : duration(targetMs);
}

/** Depths stand beside the name of the queue. */
export function asDocument({ queue, depth, slots, ...rest }: QueueHealth): object {
  const { recent: _, ...shown } = rest;
  return { queue, ...depth, slots: slots.total, busy: slots.busy, ...shown };
}
