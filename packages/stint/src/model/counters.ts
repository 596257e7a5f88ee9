export type CounterDefinition = {
  /** The name and help of its Prometheus metric. Null: shown as part of another metric. */
  readonly metric: {
    readonly name: string;
    readonly unit: "jobs" | "attempts";
    readonly help: string;
  } | null;
  /** Its words in the log line that a worker writes once a minute. Absent: not in that line. */
  readonly log?: string;
};

/**
 * What a worker counts for each queue and kind. This table makes the meter, the rows that workers flush, the metrics and the log line. A new
 * counter needs a line here, a column of the same name (`leaseLost`: `lease_lost`) in a migration of `stint.series`, and the place that counts.
 */
export const counters = {
  claimed: {
    metric: { name: "stint_jobs_claimed_total", unit: "jobs", help: "Jobs claimed by this process." },
  },
  succeeded: {
    metric: {
      name: "stint_jobs_completed_total",
      unit: "jobs",
      help: "Jobs that succeeded in this process.",
    },
    log: "succeeded",
  },
  failed: {
    metric: {
      name: "stint_jobs_failed_total",
      unit: "attempts",
      help: "Attempts that failed, whether or not the job is retried; attempts that timed out are counted separately.",
    },
    log: "failed",
  },
  timedOut: {
    metric: {
      name: "stint_jobs_timed_out_total",
      unit: "attempts",
      help: "Attempts that ran longer than their timeout.",
    },
    log: "timed out",
  },
  retried: {
    metric: {
      name: "stint_jobs_retried_total",
      unit: "attempts",
      help: "Attempts that failed and will be retried.",
    },
  },
  dead: {
    metric: { name: "stint_jobs_dead_total", unit: "jobs", help: "Jobs that became dead in this process." },
    log: "dead",
  },
  cancelled: {
    metric: {
      name: "stint_jobs_cancelled_total",
      unit: "jobs",
      help: "Jobs that were cancelled in this process.",
    },
    log: "cancelled",
  },
  snoozed: {
    metric: {
      name: "stint_jobs_snoozed_total",
      unit: "jobs",
      help: "Attempts that ended by snoozing the job.",
    },
    log: "snoozed",
  },
  parked: {
    metric: {
      name: "stint_jobs_parked_total",
      unit: "jobs",
      help: "Attempts that ended by parking the job.",
    },
    log: "parked",
  },
  released: {
    metric: {
      name: "stint_jobs_released_total",
      unit: "jobs",
      help: "Jobs released without spending an attempt.",
    },
    log: "released",
  },
  /** Leases of any worker, taken back by this one. */
  rescued: {
    metric: {
      name: "stint_lease_expired_total",
      unit: "jobs",
      help: "Jobs of any worker that this process rescued after their lease expired.",
    },
    log: "rescued",
  },
  /** Outcomes refused by the fence, because another worker had the job by then. */
  leaseLost: {
    metric: {
      name: "stint_lease_lost_total",
      unit: "attempts",
      help: "Attempts of this process whose outcome was refused because the lease was lost.",
    },
    log: "lost their lease",
  },
  slow: {
    metric: {
      name: "stint_jobs_slow_total",
      unit: "attempts",
      help: "Attempts that became slow for their kind while they ran.",
    },
  },
  stalled: {
    metric: {
      name: "stint_jobs_stalled_total",
      unit: "attempts",
      help: "Attempts that reported no progress for longer than the stallAfter of their kind.",
    },
    log: "stalled",
  },
  expired: {
    metric: {
      name: "stint_jobs_expired_total",
      unit: "jobs",
      help: "Jobs that were cancelled because they were too old to run.",
    },
    log: "expired",
  },
  /** The attempts that succeeded jobs took: the sum of the histogram `stint_attempts_per_success`. */
  attemptsOfSucceeded: { metric: null },
} as const satisfies Readonly<Record<string, CounterDefinition>>;

export type Counter = keyof typeof counters;

export const counterNames = Object.keys(counters) as Counter[];

export type Counts = { [counter in Counter]: number };

/** One value for each counter. */
export function countsBy(of: (counter: Counter) => number): Counts {
  return Object.fromEntries(counterNames.map((counter) => [counter, of(counter)])) as Counts;
}
