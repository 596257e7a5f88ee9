import { counterNames, counters, type Counter, type CounterDefinition } from "../model/counters.ts";
import { attemptBounds } from "./attempts.ts";

/** A metric that Stint reports. The Grafana dashboard, the alerts and the guide are made from this list, so names cannot drift. */
export type MetricDefinition = {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly unit: "jobs" | "attempts" | "seconds" | "slots" | "workers" | "ratio" | "info";
  readonly labels: readonly string[];
  /** Which source reports it: each process about itself, or the database about the whole installation. */
  readonly source: "process" | "database";
  /** How label values beyond the limit are combined as `other`. Default "sum". */
  readonly fold?: "sum" | "max";
  /** The upper bounds of a histogram's buckets. Default: the bounds of durations. */
  readonly bounds?: readonly number[];
};

const registered = new Map<string, MetricDefinition>();

/** All registered metrics. A new capability registers its metrics beside its code. */
export function metrics(): readonly MetricDefinition[] {
  return [...registered.values()];
}

/** Add a metric. Its name must never change: dashboards elsewhere read it. */
export function registerMetric(definition: MetricDefinition): MetricDefinition {
  const { name, type, help, unit, labels } = definition;
  const wrong = (why: string): Error => new Error(`metric ${name}: ${why}`);
  if (!/^stint_[a-z]+(?:_[a-z]+)*$/.test(name))
    throw wrong("the name must be stint_ followed by lower-case words");
  if (registered.has(name)) throw wrong("it is already registered");
  if ((type === "counter") !== name.endsWith("_total"))
    throw wrong("the names of counters, and of no other metric, end in _total");
  if (unit === "seconds" && !name.endsWith("_seconds")) throw wrong("the name must end in _seconds");
  if (help === "" || !help.endsWith(".")) throw wrong("the help must be a sentence");
  // A tenant label would make a time series for each customer, which no Prometheus has the memory for.
  if (labels.some((label) => !/^[a-z]+$/.test(label) || label === "tenant" || label === "le"))
    throw wrong(`a label is not allowed: ${labels.join(", ")}`);
  registered.set(name, definition);
  return definition;
}

const byKind = ["queue", "kind"] as const;
const byQueue = ["queue"] as const;

function histogram(name: string, help: string): MetricDefinition {
  return registerMetric({
    name,
    type: "histogram",
    unit: "seconds",
    help,
    labels: byKind,
    source: "process",
  });
}

type Gauge = Pick<MetricDefinition, "name" | "unit" | "help" | "labels" | "fold">;

function processGauge(gauge: Gauge): MetricDefinition {
  return registerMetric({ ...gauge, type: "gauge", source: "process" });
}

function databaseGauge(gauge: Gauge): MetricDefinition {
  return registerMetric({ ...gauge, type: "gauge", source: "database" });
}

type Metered = { [name in Counter]: (typeof counters)[name]["metric"] extends null ? never : name }[Counter];

/** The metric of each counter that has one. */
export const counterMetrics = Object.fromEntries(
  counterNames.flatMap((counter) => {
    const { metric }: CounterDefinition = counters[counter];
    return metric === null
      ? []
      : [[counter, registerMetric({ ...metric, type: "counter", labels: byKind, source: "process" })]];
  }),
) as Readonly<Record<Metered, MetricDefinition>>;

/** What each process reports about its own workers. */
export const processMetrics = {
  ...counterMetrics,
  attemptsPerSuccess: registerMetric({
    name: "stint_attempts_per_success",
    type: "histogram",
    unit: "attempts",
    help: "How many attempts each job took that succeeded in this process.",
    labels: byKind,
    source: "process",
    bounds: attemptBounds,
  }),
  wait: histogram("stint_job_wait_seconds", "Time from when a job could run to its claim."),
  run: histogram("stint_job_run_seconds", "Time from the start of a handler to its end."),
  slots: processGauge({
    name: "stint_worker_slots",
    unit: "slots",
    help: "Slots of this process by pool and state (busy, free).",
    labels: ["pool", "state"],
  }),
  waiting: processGauge({
    name: "stint_worker_waiting",
    unit: "jobs",
    help: "Jobs claimed by this process that are waiting for a slot.",
    labels: ["pool"],
  }),
  draining: processGauge({
    name: "stint_worker_draining",
    unit: "workers",
    help: "Workers of this process that are draining.",
    labels: [],
  }),
  build: processGauge({
    name: "stint_build_info",
    unit: "info",
    help: "Always 1; the labels hold the running versions.",
    labels: ["version", "node"],
    fold: "max",
  }),
} as const;

/** What the database reports about the whole installation. */
export const databaseMetrics = {
  enqueued: registerMetric({
    name: "stint_jobs_enqueued_total",
    type: "counter",
    unit: "jobs",
    help: "Jobs enqueued or replayed by any client; a queue and kind that was long unused may restart at zero once there are over a thousand.",
    labels: byKind,
    source: "database",
  }),
  jobs: databaseGauge({
    name: "stint_jobs",
    unit: "jobs",
    help: "Jobs by state; of ended jobs, only dead ones.",
    labels: [...byKind, "state"],
  }),
  oldestReady: databaseGauge({
    name: "stint_oldest_ready_age_seconds",
    unit: "seconds",
    help: "How long the oldest ready job has been waiting; 0 when no job is ready.",
    labels: byQueue,
    fold: "max",
  }),
  target: databaseGauge({
    name: "stint_oldest_ready_target_seconds",
    unit: "seconds",
    help: "The target for the age of the oldest ready job.",
    labels: byQueue,
    fold: "max",
  }),
  queuePaused: databaseGauge({
    name: "stint_queue_paused",
    unit: "ratio",
    help: "1 while the queue is paused, else 0.",
    labels: byQueue,
    fold: "max",
  }),
  oldestDead: databaseGauge({
    name: "stint_oldest_dead_age_seconds",
    unit: "seconds",
    help: "How long the oldest dead job has been dead; 0 when no job is dead.",
    labels: byQueue,
    fold: "max",
  }),
  queueDrain: databaseGauge({
    name: "stint_queue_drain_seconds",
    unit: "seconds",
    help: "Time to finish all ready jobs at the rate of the last minute; absent while no job ends.",
    labels: byQueue,
    fold: "max",
  }),
  retries: databaseGauge({
    name: "stint_retry_ratio",
    unit: "ratio",
    help: "Retries per ended attempt over the last 10 minutes, 0 to 1; absent when no attempt ended.",
    labels: byQueue,
    fold: "max",
  }),
  queueSlots: databaseGauge({
    name: "stint_queue_slots",
    unit: "slots",
    help: "Slots of all workers that serve the queue, by state (busy, free); a slot shared by several queues counts for each.",
    labels: [...byQueue, "state"],
  }),
  queueWorkers: databaseGauge({
    name: "stint_queue_workers",
    unit: "workers",
    help: "Workers that serve the queue; a worker that serves several counts for each.",
    labels: byQueue,
  }),
  workersRecommended: databaseGauge({
    name: "stint_queue_workers_recommended",
    unit: "workers",
    help: "Workers that the queue should have, from its load, pauses and limits.",
    labels: byQueue,
  }),
  workers: databaseGauge({
    name: "stint_workers",
    unit: "workers",
    help: "Live workers.",
    labels: [],
  }),
  stops: databaseGauge({
    name: "stint_worker_stops",
    unit: "workers",
    help: "Workers that stopped in the last hour, up to 100; killed ones do not count.",
    labels: [],
  }),
  workerDrain: databaseGauge({
    name: "stint_worker_drain_seconds",
    unit: "seconds",
    help: "The longest drain of the workers that stopped in the last hour; absent when none stopped.",
    labels: [],
    fold: "max",
  }),
  slow: databaseGauge({
    name: "stint_slow_jobs",
    unit: "jobs",
    help: "Running jobs that are slow for their kind.",
    labels: [],
  }),
  unserved: databaseGauge({
    name: "stint_unserved_age_seconds",
    unit: "seconds",
    help: "How long the oldest ready job that no worker serves has been waiting.",
    labels: byKind,
    fold: "max",
  }),
} as const;
