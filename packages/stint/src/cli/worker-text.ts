import type { WorkerView } from "../inspect/types.ts";
import { bytes, count, duration } from "./figures.ts";
import { age } from "./job-text.ts";
import { paint, type Painted, type Style } from "./output.ts";
import type { Column } from "./table.ts";

/** A worker says that it lives every 25 s; after this something is wrong with it. */
const silentAfterMs = 60_000;

export type WorkerWord = "serving" | "draining" | "asleep" | "silent";

const styles: Record<WorkerWord, Style> = {
  serving: "green",
  draining: "yellow",
  asleep: "dim",
  silent: ["red", "bold"],
};

export function stateOf({ draining, asleep, silentMs }: WorkerView): WorkerWord {
  // Asleep on purpose it says nothing, and a wake reaches it all the same.
  if (asleep) return "asleep";
  if (silentMs > silentAfterMs) return "silent";
  return draining ? "draining" : "serving";
}

/** The versions that run, the one of most workers first. */
export function versionsOf(workers: readonly WorkerView[]): string[] {
  const counts = new Map<string, number>();
  for (const { version } of workers) counts.set(version, (counts.get(version) ?? 0) + 1);
  return [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([version]) => version);
}

export const workerColumns: readonly Column<WorkerView>[] = [
  { title: "WORKER", cell: (worker) => worker.id },
  { title: "STATE", cell: stateText },
  { title: "BUSY", cell: (worker) => `${worker.busy}/${worker.slots}`, align: "right" },
  { title: "WAITING", cell: (worker) => count(worker.waiting, "blue"), align: "right" },
  { title: "LAG", cell: (worker) => duration(worker.lagMs), align: "right" },
  { title: "MEMORY", cell: (worker) => bytes(worker.rssBytes), align: "right" },
  { title: "HOST", cell: (worker) => worker.host, most: 30 },
  { title: "PID", cell: (worker) => worker.pid, align: "right" },
  { title: "VERSION", cell: versionText },
  { title: "STARTED", cell: (worker) => age(worker.startedAt) },
  { title: "SEEN", cell: (worker) => age(worker.seenAt) },
  { title: "SLOTS", cell: (worker) => slotsText(worker.pools), most: 60 },
  { title: "KINDS", cell: (worker) => worker.kinds.join(", "), most: Number.POSITIVE_INFINITY },
];

function stateText(worker: WorkerView): Painted {
  const state = stateOf(worker);
  return paint(styles[state], state);
}

function versionText({ version, behind }: WorkerView): Painted | string {
  return behind ? paint("yellow", `${version} (old)`) : version;
}

function slotsText(pools: WorkerView["pools"]): string {
  return Object.entries(pools)
    .map(([queue, slots]) => `${queue} ${slots}`)
    .join(", ");
}
