import type { Health, Inspector, JobRow, KindView, SlowJob, WorkerView } from "../../inspect/types.ts";
import type { Screen } from "./view.ts";

/** Dead jobs of one kind that died of the same thing. */
export type DeadGroup = {
  readonly kind: string;
  readonly queue: string;
  readonly error: string;
  readonly count: number;
  readonly latest: Date;
  /** One of them, to look at. */
  readonly example: string;
};

/** What one screen needs, as of one moment. What another screen needs is not asked for. */
export type Snapshot = {
  readonly health: Health;
  readonly kinds: readonly KindView[];
  readonly slow: readonly SlowJob[];
  readonly workers: readonly WorkerView[];
  readonly dead: readonly DeadGroup[];
};

/** Groups are made of so many of the newest dead jobs. */
export const deadLookedAt = 200;

export async function take(inspector: Inspector, screen: Screen): Promise<Snapshot> {
  const [health, kinds, slow, workers, dead] = await Promise.all([
    inspector.health(),
    screen === "queue" ? inspector.kinds() : [],
    screen === "queue" || screen === "slow" ? inspector.slow() : [],
    screen === "workers" ? inspector.workers() : [],
    screen === "dead"
      ? inspector.jobs({ state: "dead", limit: deadLookedAt }).then(({ jobs }) => group(jobs))
      : [],
  ]);
  return { health, kinds, slow, workers, dead };
}

/** By kind and error, the largest group first. */
export function group(jobs: readonly JobRow[]): DeadGroup[] {
  const groups = new Map<string, DeadGroup>();
  for (const job of jobs) {
    const error = errorOf(job);
    const name = `${job.queue}\n${job.kind}\n${error}`;
    const at = job.finishedAt ?? job.createdAt;
    const before = groups.get(name);
    const latest = before === undefined || at > before.latest ? at : before.latest;
    const example = before === undefined || at >= before.latest ? job.id : before.example;
    groups.set(name, {
      kind: job.kind,
      queue: job.queue,
      error,
      count: (before?.count ?? 0) + 1,
      latest,
      example,
    });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || b.latest.getTime() - a.latest.getTime());
}

/** Numbers and ids differ from job to job; what is left is what they died of. */
function errorOf({ error, reason }: JobRow): string {
  const text = error === null ? (reason ?? "no reason") : `${error.name}: ${error.message}`;
  return text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+\b/gi, "…");
}
