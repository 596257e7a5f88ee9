import { increase, maxBy, on, select, sumBy } from "./promql.ts";
import { databaseMetrics as database, processMetrics as own } from "./registry.ts";

/** One rule of a Prometheus rule file. */
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
 * Jobs that died within 15 minutes, not all dead jobs: an alert that fires for as long as any job is dead is soon silenced. A counter that
 * has just started has no increase yet, so the second part finds kinds that had no dead job 15 minutes ago.
 */
const newDeaths =
  `${sumBy(["queue", "kind"], increase(own.dead, "15m"))} > 0` +
  ` or ${maxBy(["queue", "kind"], dead)} > 0 unless ${maxBy(["queue", "kind"], `${dead} offset 15m`)} > 0`;

/** A paused queue starts no jobs on purpose. */
const unlessPaused = ` unless ${on(["queue"])} ${maxBy(["queue"], select(database.queuePaused))} == 1`;

const rules: readonly Rule[] = [
  {
    name: "StintOldestReadyTooOld",
    expr: `${maxBy(["queue"], select(database.oldestReady))} > ${on(["queue"])} ${maxBy(["queue"], select(database.target))}${unlessPaused}`,
    holds: "5m",
    severity: "page",
    summary:
      "Queue {{ $labels.queue }} is behind: its oldest ready job has waited {{ $value | humanizeDuration }}",
    next: "Check whether workers serve the queue, whether its slots are busy and whether its jobs became slow: `stint top`.",
  },
  {
    name: "StintNoWorkers",
    expr: `${sumBy(["queue"], ready)} > 0 and ${on(["queue"])} ${maxBy(["queue"], select(database.queueWorkers))} == 0${unlessPaused}`,
    holds: "5m",
    severity: "page",
    summary: "Queue {{ $labels.queue }} has ready jobs and no worker",
    next: "Start a worker whose pools serve this queue. `stint workers` lists the live workers.",
  },
  {
    name: "StintUnserved",
    expr: `${maxBy(["queue", "kind"], select(database.unserved))} > 300${unlessPaused}`,
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
    summary: "Stint metrics are missing",
    next: "The dashboard serves these metrics. Check that it runs, reaches the database and is scraped.",
  },
  {
    name: "StintDead",
    expr: newDeaths,
    holds: "0m",
    severity: "ticket",
    summary: "Jobs of {{ $labels.kind }} died in queue {{ $labels.queue }} in the last 15 minutes",
    next: "See the errors with `stint dead list`. Replay the jobs once the cause is fixed.",
  },
  {
    // The same name, so that one route and one silence cover both. It resolves when the jobs are replayed, cancelled or pruned.
    name: "StintDead",
    expr: `${maxBy(["queue"], select(database.oldestDead))} > 86400`,
    holds: "5m",
    severity: "ticket",
    summary: "Queue {{ $labels.queue }} has jobs that have been dead for {{ $value | humanizeDuration }}",
    next: "Replay the jobs, or cancel those that are no longer needed: `stint dead list`.",
  },
  {
    name: "StintLeasesExpire",
    expr: `${sumBy(["queue", "kind"], increase(own.rescued, "15m"))} > 0`,
    holds: "0m",
    severity: "ticket",
    summary: "Leases of {{ $labels.kind }} expired: workers died or stalled while they ran it",
    next: "Look for processes that were killed (out of memory) and for handlers that crash them.",
  },
  {
    name: "StintLeasesLost",
    expr: `${sumBy(["queue", "kind"], increase(own.leaseLost, "15m"))} > 0`,
    holds: "0m",
    severity: "ticket",
    summary: "Outcomes of {{ $labels.kind }} were refused because their leases were lost",
    next: "The jobs ran again on another worker. Raise the lease, or find what keeps the process from renewing it.",
  },
  {
    name: "StintManyRetries",
    expr: `${maxBy(["queue"], select(database.retries))} > 0.5`,
    holds: "15m",
    severity: "ticket",
    summary: "More than half of the attempts in queue {{ $labels.queue }} end in a retry",
    next: "See the errors with `stint jobs list --state retrying`.",
  },
  {
    name: "StintSlowJobs",
    expr: `${maxBy([], select(database.slow))} > 0`,
    holds: "15m",
    severity: "ticket",
    summary: "{{ $value }} running jobs are slow for their kind",
    next: "The Slow screen of the dashboard lists them.",
  },
  {
    name: "StintSlotsBusy",
    expr: `${sumBy(["pool"], select(own.slots, { state: '="busy"' }))} / ${sumBy(["pool"], select(own.slots))} >= 1`,
    holds: "30m",
    severity: "ticket",
    summary: "Every slot of pool {{ $labels.pool }} has been busy for half an hour",
    next: "If its queues fall behind, add slots or processes.",
  },
];

/** A rule file for Prometheus. */
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
