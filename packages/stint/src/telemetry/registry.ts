import { counterNames, counters, type Counter, type CounterDefinition } from "../model/counters.ts";
import { attemptBounds } from "./attempts.ts";

/** A metric that can be read somewhere. Dashboards and alerts are made from the same list, so their names cannot drift. */
export type MetricDefinition = {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly unit: "jobs" | "attempts" | "seconds" | "slots" | "workers" | "ratio" | "info";
  readonly labels: readonly string[];
  /** Who can tell it: each process of itself, or the database, once for all. */
  readonly source: "process" | "database";
  /** What the label values beyond the limit come to, together, as `other`. Default "sum". */
  readonly fold?: "sum" | "max";
  /** Of a histogram, the upper bounds of its buckets. Default: those of durations. */
  readonly bounds?: readonly number[];
};

const registered = new Map<string, MetricDefinition>();

/** Every metric there is. Whoever adds a capability registers what can be told of it beside its code. */
export function metrics(): readonly MetricDefinition[] {
  return [...registered.values()];
}

/** Add a metric. Names are for good: a dashboard somewhere reads them. */
export function registerMetric(definition: MetricDefinition): MetricDefinition {
  const { name, type, help, unit, labels } = definition;
  const wrong = (why: string): Error => new Error(`metric ${name}: ${why}`);
  if (!/^stint_[a-z]+(?:_[a-z]+)*$/.test(name))
    throw wrong("its name must be stint_ and words of small letters");
  if (registered.has(name)) throw wrong("is registered already");
  if ((type === "counter") !== name.endsWith("_total")) throw wrong("counters, and only they, end in _total");
  if (unit === "seconds" && !name.endsWith("_seconds")) throw wrong("seconds are to stand in its name");
  if (help === "" || !help.endsWith(".")) throw wrong("its help must be a sentence");
  // A tenant for each customer would make a time series for each: nobody's memory is that large.
  if (labels.some((label) => !/^[a-z]+$/.test(label) || label === "tenant" || label === "le"))
    throw wrong(`has a label that is not allowed: ${labels.join(", ")}`);
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
  wait: histogram("stint_job_wait_seconds", "From when a job could have run to its claim."),
  run: histogram("stint_job_run_seconds", "From the start of a handler to its end."),
  slots: processGauge({
    name: "stint_worker_slots",
    unit: "slots",
    help: "Slots of this process by pool and state (busy, free).",
    labels: ["pool", "state"],
  }),
  waiting: processGauge({
    name: "stint_worker_waiting",
    unit: "jobs",
    help: "Jobs claimed by this process that wait for a slot.",
    labels: ["pool"],
  }),
  draining: processGauge({
    name: "stint_worker_draining",
    unit: "workers",
    help: "Workers of this process that take nothing new because they are stopping.",
    labels: [],
  }),
  build: processGauge({
    name: "stint_build_info",
    unit: "info",
    help: "Always 1; the version that runs is in its labels.",
    labels: ["version", "node"],
    fold: "max",
  }),
} as const;

/** What the database tells, once for the whole installation. */
export const databaseMetrics = {
  enqueued: registerMetric({
    name: "stint_jobs_enqueued_total",
    type: "counter",
    unit: "jobs",
    help: "Jobs that came, whoever enqueued or replayed them; begins at zero again where a name was long unused among more than a thousand.",
    labels: byKind,
    source: "database",
  }),
  jobs: databaseGauge({
    name: "stint_jobs",
    unit: "jobs",
    help: "Jobs by state; of those that have ended, only the dead.",
    labels: [...byKind, "state"],
  }),
  oldestReady: databaseGauge({
    name: "stint_oldest_ready_age_seconds",
    unit: "seconds",
    help: "How long the oldest ready job has been waiting past its time; 0 when none waits.",
    labels: byQueue,
    fold: "max",
  }),
  target: databaseGauge({
    name: "stint_oldest_ready_target_seconds",
    unit: "seconds",
    help: "The age that the oldest ready job should stay below.",
    labels: byQueue,
    fold: "max",
  }),
  oldestDead: databaseGauge({
    name: "stint_oldest_dead_age_seconds",
    unit: "seconds",
    help: "How long ago the oldest dead job died; 0 when none is dead.",
    labels: byQueue,
    fold: "max",
  }),
  queueDrain: databaseGauge({
    name: "stint_queue_drain_seconds",
    unit: "seconds",
    help: "How long the ready jobs will take at the rate of the last minute; absent when none end.",
    labels: byQueue,
    fold: "max",
  }),
  retries: databaseGauge({
    name: "stint_retry_ratio",
    unit: "ratio",
    help: "Retries per ended attempt over the last 10 minutes, 0 to 1; absent when none ended.",
    labels: byQueue,
    fold: "max",
  }),
  queueSlots: databaseGauge({
    name: "stint_queue_slots",
    unit: "slots",
    help: "Slots of all workers that serve the queue, by state (busy, free). A slot shared by queues counts for each.",
    labels: [...byQueue, "state"],
  }),
  queueWorkers: databaseGauge({
    name: "stint_queue_workers",
    unit: "workers",
    help: "Workers that serve the queue. One that serves several counts for each.",
    labels: byQueue,
  }),
  workers: databaseGauge({
    name: "stint_workers",
    unit: "workers",
    help: "Workers that live.",
    labels: [],
  }),
  slow: databaseGauge({
    name: "stint_slow_jobs",
    unit: "jobs",
    help: "Running jobs beyond what is normal for their kind.",
    labels: [],
  }),
  unserved: databaseGauge({
    name: "stint_unserved_age_seconds",
    unit: "seconds",
    help: "How long jobs have been waiting that no worker serves.",
    labels: byKind,
    fold: "max",
  }),
} as const;
