import type { WorkerView } from "../inspect/types.ts";
import type { WorkerStop } from "../sql/workers.ts";
import { isUnresponsive } from "../model/liveness.ts";
import { bytes, count, duration } from "./figures.ts";
import { age } from "./job-text.ts";
import { paint, type Painted, type Style } from "./output.ts";
import type { Column } from "./table.ts";

export type WorkerWord = "serving" | "draining" | "asleep" | "not responding";

const styles: Record<WorkerWord, Style> = {
  serving: "green",
  draining: "yellow",
  asleep: "dim",
  "not responding": ["red", "bold"],
};

export function stateOf(worker: WorkerView): WorkerWord {
  if (worker.asleep) return "asleep";
  if (isUnresponsive(worker)) return "not responding";
  return worker.draining ? "draining" : "serving";
}

/** The versions that run, the one of most workers first. */
export function versionsOf(workers: readonly WorkerView[]): string[] {
  const counts = new Map<string, number>();
  for (const { version } of workers) counts.set(version, (counts.get(version) ?? 0) + 1);
  return [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([version]) => version);
}

export const workerColumns: readonly Column<WorkerView>[] = [
  { title: "WORKER", cell: (worker) => worker.id },
  { title: "STATUS", cell: stateText },
  { title: "SLOTS", cell: (worker) => `${worker.busy}/${worker.slots}`, align: "right" },
  { title: "WAITING", cell: (worker) => count(worker.waiting, "blue"), align: "right" },
  { title: "LOOP LAG", cell: (worker) => duration(worker.lagMs), align: "right", leaves: 6 },
  { title: "MEMORY", cell: (worker) => bytes(worker.rssBytes), align: "right", leaves: 4 },
  { title: "HOST", cell: (worker) => worker.host, most: 30 },
  { title: "PID", cell: (worker) => String(worker.pid), align: "right", leaves: 1 },
  { title: "VERSION", cell: versionText, leaves: 5 },
  { title: "STARTED", cell: (worker) => age(worker.startedAt), leaves: 2 },
  { title: "HEARTBEAT", cell: (worker) => age(worker.seenAt), leaves: 3 },
  { title: "POOLS", cell: (worker) => poolsText(worker.pools), most: 60 },
  { title: "KINDS", cell: (worker) => worker.kinds.join(", "), most: Number.POSITIVE_INFINITY },
];

export const stopColumns: readonly Column<WorkerStop>[] = [
  { title: "STOPPED", cell: (stop) => age(stop.stoppedAt) },
  { title: "WORKER", cell: (stop) => stop.worker },
  { title: "DRAINED IN", cell: (stop) => duration(stop.ms), align: "right" },
  { title: "ENDED", cell: (stop) => String(stop.drained), align: "right" },
  { title: "RELEASED", cell: (stop) => count(stop.released, "yellow"), align: "right" },
  { title: "VERSION", cell: (stop) => stop.version },
];

function stateText(worker: WorkerView): Painted {
  const state = stateOf(worker);
  return paint(styles[state], state);
}

function versionText({ version, behind }: WorkerView): Painted | string {
  return behind ? paint("yellow", `${version} (old)`) : version;
}

/** A pool may have thousands of queues. */
const mostPools = 12;

function poolsText(pools: WorkerView["pools"]): string {
  const all = Object.entries(pools);
  const shown = all.slice(0, mostPools).map(([queue, slots]) => `${queue} ${slots}`);
  return [...shown, ...(all.length > mostPools ? [`${all.length - mostPools} more`] : [])].join(", ");
}
