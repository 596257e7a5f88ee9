import type { WorkerDeps } from "./deps.ts";

/** Wakes workers for jobs that became ready. */
export type ReadyNotifier = {
  /** Jobs of these queues: so many at most in each; undefined: any number. */
  readonly notifyReady: (queues: readonly string[], jobs?: number) => void;
  /** The queue of each job. */
  readonly notifyEach: (queues: readonly string[]) => void;
};

export function readyNotifier({ notify }: Pick<WorkerDeps, "notify">): ReadyNotifier {
  const notifyReady: ReadyNotifier["notifyReady"] = (queues, jobs) => {
    const hints = [...new Set(queues)].map((queue) => `ready:${queue}`);
    if (hints.length > 0) notify(hints, jobs);
  };
  return {
    notifyReady,
    notifyEach(queues) {
      const jobs = new Map<string, number>();
      for (const queue of queues) jobs.set(queue, (jobs.get(queue) ?? 0) + 1);
      for (const [queue, count] of jobs) notifyReady([queue], count);
    },
  };
}
