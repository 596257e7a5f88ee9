import type { Run, RunOptions } from "../db/db.ts";
import { keyOfFence, type Fence } from "../model/job.ts";
import { finish } from "../sql/finish.ts";
import { release } from "../sql/release.ts";

export type Released<Item extends Fence> = {
  /** The queues that have some of them back. */
  queues: string[];
  /** Those that somebody has locked. They are still ours: ask again soon. */
  left: Item[];
};

/** Give back jobs that were claimed and never begun. One whose end was asked for meanwhile ends. */
export async function releaseUnbegun<Item extends Fence>(
  db: Run,
  fences: readonly Item[],
  options?: RunOptions,
): Promise<Released<Item>> {
  const answers = new Map(
    (await release(db, fences, options)).map((answer) => [keyOfFence(answer.fence), answer]),
  );
  const went = (how: string): Item[] =>
    fences.filter((fence) => answers.get(keyOfFence(fence))?.went === how);
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
  const queues = [...answers.values()].flatMap(({ queue }) => queue ?? []);
  return { queues: [...new Set(queues)], left: went("locked") };
}
