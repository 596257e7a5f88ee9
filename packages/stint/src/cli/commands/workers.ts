import type { Command } from "commander";
import type { LiveWorker } from "../../sql/workers.ts";
import { examples, runs } from "../command.ts";
import { age } from "../job-text.ts";
import { say, paint, type Painted } from "../output.ts";
import { table, type Column } from "../table.ts";

export function addWorkers(program: Command): void {
  const command = program.command("workers").summary("the workers that live");
  command.description("The workers that live: where, since when, and what they serve.");
  examples(command, "stint workers", "stint workers --json");
  runs(command, async (context) => {
    const workers = await (await context.client()).workers();
    if (context.out.json) return context.out.document({ workers: workers.map(withState) });
    if (workers.length === 0)
      return context.out.note(say`No worker lives. Start one with \`npx stint worker\`.`);
    table(context.out, columns, workers);
  });
}

const columns: readonly Column<LiveWorker>[] = [
  { title: "WORKER", cell: (worker) => worker.id },
  { title: "STATE", cell: stateText },
  { title: "HOST", cell: (worker) => worker.host, most: 30 },
  { title: "PID", cell: (worker) => worker.pid, align: "right" },
  { title: "VERSION", cell: (worker) => worker.version },
  { title: "STARTED", cell: (worker) => age(worker.startedAt) },
  { title: "SEEN", cell: (worker) => age(worker.seenAt) },
  { title: "SLOTS", cell: (worker) => slotsText(worker.pools), most: 60 },
  { title: "KINDS", cell: (worker) => worker.kinds.join(", "), most: Number.POSITIVE_INFINITY },
];

function stateOf({ draining }: LiveWorker): "draining" | "serving" {
  return draining ? "draining" : "serving";
}

function stateText(worker: LiveWorker): Painted {
  const state = stateOf(worker);
  return paint(state === "draining" ? "yellow" : "green", state);
}

function withState(worker: LiveWorker): object {
  const { id, ...rest } = worker;
  return { id, state: stateOf(worker), ...rest };
}

function slotsText(pools: LiveWorker["pools"]): string {
  return Object.entries(pools)
    .map(([queue, slots]) => `${queue} ${slots}`)
    .join(", ");
}
