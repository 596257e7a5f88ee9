/** The data of one frame of the screen. */
import type { Stint } from "stint";
import { queues, slots, type Queue } from "./jobs.ts";
import type { Watch } from "./watch.ts";

export type QueueView = {
  readonly queue: Queue;
  readonly slots: number;
  /** Busy slots of the main worker. `running` counts the jobs of every worker. */
  readonly busy: number;
  readonly scheduled: number;
  readonly ready: number;
  readonly running: number;
  readonly retrying: number;
  readonly dead: number;
  readonly oldestMs: number | null;
  readonly rate: number;
  readonly succeeded: number;
};

export async function lookAt(stint: Stint, watch: Watch): Promise<QueueView[]> {
  const counts = new Map((await stint.queues()).map((count) => [count.queue, count]));
  return queues.map((queue) => {
    const count = counts.get(queue);
    return {
      queue,
      slots: slots[queue],
      busy: watch.busy(queue),
      scheduled: count?.scheduled ?? 0,
      ready: count?.ready ?? 0,
      running: count?.running ?? 0,
      retrying: count?.retrying ?? 0,
      dead: count?.dead ?? 0,
      oldestMs: count?.oldestReadyMs ?? null,
      rate: watch.rate(queue),
      succeeded: watch.succeeded(queue),
    };
  });
}
