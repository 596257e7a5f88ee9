import type { Stint, Worker } from "#stint/index.js";
import type { Fresh } from "./fresh.ts";

/** How many jobs there are in each state, also ended ones. */
export async function states(fresh: Fresh): Promise<Record<string, number>> {
  const rows = await fresh.sql<{ state: string; count: number }>(
    `select state::text, count(*)::integer as count from stint.jobs group by state`,
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

export async function twoWorkers(
  stint: Stint,
  handlers: Parameters<Stint["worker"]>[0]["handlers"],
): Promise<Worker[]> {
  const workers = [1, 2].map(() => stint.worker({ pools: { default: 8 }, handlers }));
  await Promise.all(workers.map((worker) => worker.start()));
  return workers;
}

export async function stopAll(workers: readonly Worker[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.stop()));
}
