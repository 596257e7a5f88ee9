import type { Command } from "commander";
import type { WorkerView } from "../../inspect/types.ts";
import { command as advised } from "../../model/command.ts";
import { examples, runs } from "../command.ts";
import { inspecting } from "../inspecting.ts";
import { say } from "../output.ts";
import { table } from "../table.ts";
import { stateOf, stopColumns, versionsOf, workerColumns } from "../worker-text.ts";

const shownStops = 5;

export function addWorkers(program: Command): void {
  const command = program.command("workers").summary("live workers and their status");
  command.description(
    "Live workers: busy slots, event loop lag, and the queues and kinds they serve.\n" +
      "A worker that is not responding has stopped sending heartbeats. Below them, the latest stops with their drain times.",
  );
  examples(command, "stint workers", "stint workers --json");
  runs(command, async (context) => {
    const [workers, stops] = await inspecting(context, (inspector) =>
      Promise.all([inspector.workers(), inspector.stops()]),
    );
    if (context.out.json) return context.out.document({ workers: workers.map(withState), stops });
    if (workers.length === 0)
      context.out.note(
        say`There is no live worker. Start one with \`${advised(await context.schema(), "worker")}\`.`,
      );
    else table(context.out, workerColumns, workers);
    const versions = versionsOf(workers);
    if (versions.length > 1)
      context.out.note(
        say`Workers of several versions run side by side: ${versions.join(", ")}. Normal while a release rolls out.`,
      );
    for (const worker of workers.filter((one) => stateOf(one) === "not responding"))
      context.out.note(
        say`Worker ${worker.id} is not responding. If its process is gone, its jobs are rescued when their leases run out.`,
      );
    if (stops.length === 0) return;
    if (workers.length > 0) context.out.line(say``);
    table(context.out, stopColumns, stops.slice(0, shownStops));
  });
}

function withState(worker: WorkerView): object {
  const { id, ...rest } = worker;
  return { id, state: stateOf(worker), ...rest };
}
