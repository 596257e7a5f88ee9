import type { Run, RunOptions } from "../db/db.ts";
import { keyOfFence, type Fence } from "../model/job.ts";
import { finish } from "../sql/finish.ts";
import { release } from "../sql/release.ts";

export type Released<Item extends Fence> = {
  /** The queues of the released jobs. */
  queues: string[];
  /** Jobs whose rows another session has locked. They are still ours: try again soon. */
  left: Item[];
};

/** Release jobs that were claimed and never began. A job that was cancelled meanwhile ends as cancelled. */
export async function releaseUnbegun<Item extends Fence>(
  db: Run,
  fences: readonly Item[],
  options?: RunOptions,
): Promise<Released<Item>> {
  const results = new Map(
    (await release(db, fences, options)).map((result) => [keyOfFence(result.fence), result]),
  );
  const went = (how: string): Item[] =>
    fences.filter((fence) => results.get(keyOfFence(fence))?.went === how);
  const cancelled = went("cancelled");
  if (cancelled.length > 0) {
    await finish(
      db,
      cancelled.map((fence) => ({
        fence,
        state: "cancelled",
        result: null,
        reason: "cancelled before it began",
        ending: { outcome: "cancelled" },
      })),
    );
  }
  const queues = [...results.values()].flatMap(({ queue }) => queue ?? []);
  return { queues: [...new Set(queues)], left: went("locked") };
}
