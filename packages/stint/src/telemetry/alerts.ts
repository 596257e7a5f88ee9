import { increase, maxBy, on, select, sumBy } from "./promql.ts";
import { databaseMetrics as database, processMetrics as own } from "./registry.ts";

/** One rule as Prometheus reads it. */
export type AlertRule = {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: { readonly severity: "page" | "ticket" };
  readonly annotations: { readonly summary: string; readonly description: string };
};

type Rule = {
  name: string;
  expr: string;
  holds: string;
  severity: "page" | "ticket";
  summary: string;
  next: string;
};

const ready = maxBy(["queue", "kind"], select(database.jobs, { state: '="ready"' }));

const dead = select(database.jobs, { state: '="dead"' });

/**
 * Deaths of the last 15 minutes, not all that are dead: an alert that rings for as long as anything is dead is soon silenced. The
 * counter of a process that has just begun to count has no increase yet, so a kind without a dead job 15 minutes ago is asked for, too.
 */
const newDeaths =
  `${sumBy(["queue", "kind"], increase(own.dead, "15m"))} > 0` +
  ` or ${maxBy(["queue", "kind"], dead)} > 0 unless ${maxBy(["queue", "kind"], `${dead} offset 15m`)} > 0`;

const rules: readonly Rule[] = [
  {
    name: "StintOldestReadyTooOld",
    expr: `${maxBy(["queue"], select(database.oldestReady))} > ${on(["queue"])} ${maxBy(["queue"], select(database.target))}`,
    holds: "5m",
    severity: "page",
    summary:
      "Queue {{ $labels.queue }} is behind: its oldest ready job waits {{ $value | humanizeDuration }}",
    next: "See whether workers serve it, whether its slots are busy, and whether its jobs have become slow: `stint top`.",
  },
  {
    name: "StintNoWorkers",
    expr: `${sumBy(["queue"], ready)} > 0 and ${on(["queue"])} ${maxBy(["queue"], select(database.queueWorkers))} == 0`,
    holds: "5m",
    severity: "page",
    summary: "Queue {{ $labels.queue }} has ready jobs and no worker",
    next: "Start a worker whose pools serve this queue: `stint workers` lists those that live.",
  },
  {
    name: "StintUnserved",
    expr: `${maxBy(["queue", "kind"], select(database.unserved))} > 300`,
    holds: "5m",
    severity: "page",
    summary: "No worker has a handler for {{ $labels.kind }} in queue {{ $labels.queue }}",
    next: "Deploy a worker with this handler, or cancel the jobs.",
  },
  {
    name: "StintMetricsGone",
    expr: `absent(${select(database.workers)})`,
    holds: "10m",
    severity: "page",
    summary: "Nobody tells how the queues are",
    next: "The dashboard serves these metrics: see whether it runs, reaches the database, and is scraped.",
  },
  {
    name: "StintDead",
    expr: newDeaths,
    holds: "0m",
    severity: "ticket",
    summary: "Jobs of {{ $labels.kind }} died in queue {{ $labels.queue }} in the last 15 minutes",
    next: "Read why with `stint dead list`; replay them with a reason once the cause is fixed.",
  },
  {
    // The same name: one silence, one route. It ends when the jobs are replayed, cancelled or pruned.
    name: "StintDead",
    expr: `${maxBy(["queue"], select(database.oldestDead))} > 86400`,
    holds: "5m",
    severity: "ticket",
    summary: "Dead jobs of queue {{ $labels.queue }} need attention for {{ $value | humanizeDuration }}",
    next: "Replay them with a reason, or cancel those that are not needed: `stint dead list`.",
  },
  {
    name: "StintLeasesExpire",
    expr: `${sumBy(["queue", "kind"], increase(own.rescued, "15m"))} > 0`,
    holds: "0m",
    severity: "ticket",
    summary: "Leases of {{ $labels.kind }} ran out: workers died or stood still while they ran it",
    next: "Look for processes that were killed (memory), and for handlers that crash them.",
  },
  {
    name: "StintLeasesLost",
    expr: `${sumBy(["queue", "kind"], increase(own.leaseLost, "15m"))} > 0`,
    holds: "0m",
    severity: "ticket",
    summary: "Outcomes of {{ $labels.kind }} were refused: their leases were gone",
    next: "The jobs ran again elsewhere. Raise the lease or find what keeps the process from renewing it.",
  },
  {
    name: "StintManyRetries",
    expr: `${maxBy(["queue"], select(database.retries))} > 0.5`,
    holds: "15m",
    severity: "ticket",
    summary: "More than half of the attempts in queue {{ $labels.queue }} end in a retry",
    next: "See which errors: `stint jobs list --state retrying`.",
  },
  {
    name: "StintSlowJobs",
    expr: `${maxBy([], select(database.slow))} > 0`,
    holds: "15m",
    severity: "ticket",
    summary: "{{ $value }} running jobs are beyond what is normal for their kind",
    next: "The dashboard's Slow screen lists them.",
  },
  {
    name: "StintSlotsBusy",
    expr: `${sumBy(["pool"], select(own.slots, { state: '="busy"' }))} / ${sumBy(["pool"], select(own.slots))} >= 1`,
    holds: "30m",
    severity: "ticket",
    summary: "Every slot of pool {{ $labels.pool }} has been busy for half an hour",
    next: "If its queues fall behind, give it more slots or more processes.",
  },
];

/** Rules for Prometheus, as a rule file has them. */
export function alertRules(): { groups: { name: string; rules: AlertRule[] }[] } {
  return {
    groups: [
      {
        name: "stint",
        rules: rules.map(({ name, expr, holds, severity, summary, next }) => ({
          alert: name,
          expr,
          for: holds,
          labels: { severity },
          annotations: { summary, description: next },
        })),
      },
    ],
  };
}
