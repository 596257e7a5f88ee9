import { inspectJobs, type JobsInspector } from "#stint/inspect/jobs.js";
import { inspectOperations, type OperationsInspector } from "#stint/inspect/operations.js";
import type { Budget } from "#stint/inspect/bounded-search.js";
import { onTestFinished } from "vitest";
import type { Fresh } from "../support/fresh.ts";

/** The half of the inspector that looks at jobs, without any normal to measure them by unless it is given. */
export function jobsOf(fresh: Fresh, usual: Record<string, number> = {}, budget?: Budget): JobsInspector {
  const none = { p50: null, p95: null, p99: null };
  const zero = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };
  const signals = {
    kinds: async () =>
      await Promise.resolve(
        Object.entries(usual).map(([kind, p95]) => ({
          kind,
          queue: "default",
          depth: zero,
          rates: { arrived: 0, claimed: 0, ended: 0, succeeded: 0, failed: 0, retried: 0, dead: 0 },
          wait: none,
          run: { ...none, p95 },
          attemptsPerSuccess: null,
          workers: 0,
          leaseAdvice: null,
        })),
      ),
  };
  return inspectJobs(fresh.db, signals, budget);
}

/** The half that acts on many, and the hints it gave. */
export function operationsOf(fresh: Fresh): OperationsInspector & { hints: string[] } {
  const hints: string[] = [];
  const operations = inspectOperations(fresh.db, (hint) => hints.push(hint));
  onTestFinished(() => operations.stop());
  return { ...operations, hints };
}
