import { maxBy, mean, quantile, rate, select, sumBy } from "./promql.ts";
import {
  counterMetrics,
  databaseMetrics as database,
  processMetrics as own,
  type MetricDefinition,
} from "./registry.ts";

type Target = { readonly expr: string; readonly legend: string };

type Chart = {
  readonly title: string;
  readonly unit: "s" | "short" | "ops" | "percentunit";
  readonly targets: readonly Target[];
  readonly stacked?: true;
};

type Row = { readonly title: string; readonly charts: readonly Chart[] };

const datasource = { type: "prometheus", uid: "${datasource}" };
const ofQueue = { queue: '=~"$queue"' };
const ofKind = { ...ofQueue, kind: '=~"$kind"' };
const byQueue = ["queue"];
const byKind = ["queue", "kind"];

/** A database metric of each queue. */
function perQueue(metric: MetricDefinition, legend = "{{namespace}} {{queue}}"): Target {
  return { expr: maxBy(byQueue, select(metric, ofQueue)), legend };
}

/** A process counter of each queue and kind, per second. */
function perSecond(metric: MetricDefinition): Target {
  return { expr: sumBy(byKind, rate(metric, ofKind)), legend: "{{namespace}} {{queue}} {{kind}}" };
}

function percentiles(metric: MetricDefinition): Target[] {
  return [0.5, 0.95, 0.99].map((share) => ({
    expr: quantile(share, metric, byQueue, ofKind),
    legend: `{{namespace}} {{queue}} p${share * 100}`,
  }));
}

const rows: readonly Row[] = [
  {
    title: "Backlog",
    charts: [
      {
        title: "Age of the oldest ready job",
        unit: "s",
        targets: [
          perQueue(database.oldestReady),
          perQueue(database.target, "{{namespace}} {{queue}} target"),
        ],
      },
      { title: "Time to drain", unit: "s", targets: [perQueue(database.queueDrain)] },
      { title: "Paused queues", unit: "short", targets: [perQueue(database.queuePaused)] },
      {
        title: "Jobs by state",
        unit: "short",
        stacked: true,
        targets: [
          {
            expr: sumBy(["state"], maxBy([...byKind, "state"], select(database.jobs, ofKind))),
            legend: "{{namespace}} {{state}}",
          },
        ],
      },
      {
        title: "Dead jobs",
        unit: "short",
        targets: [
          {
            expr: maxBy(byKind, select(database.jobs, { ...ofKind, state: '="dead"' })),
            legend: "{{namespace}} {{queue}} {{kind}}",
          },
        ],
      },
      { title: "Age of the oldest dead job", unit: "s", targets: [perQueue(database.oldestDead)] },
      {
        title: "Jobs that no worker serves: age",
        unit: "s",
        targets: [
          {
            expr: maxBy(byKind, select(database.unserved, ofKind)),
            legend: "{{namespace}} {{queue}} {{kind}}",
          },
        ],
      },
    ],
  },
  {
    title: "Throughput",
    charts: [
      {
        title: "Enqueued",
        unit: "ops",
        targets: [
          {
            expr: maxBy(byKind, rate(database.enqueued, ofKind)),
            legend: "{{namespace}} {{queue}} {{kind}}",
          },
        ],
      },
      { title: "Claimed", unit: "ops", targets: [perSecond(own.claimed)] },
      { title: "Succeeded", unit: "ops", targets: [perSecond(own.succeeded)] },
      { title: "Failed attempts", unit: "ops", targets: [perSecond(own.failed), perSecond(own.timedOut)] },
      { title: "Retried", unit: "ops", targets: [perSecond(own.retried)] },
      { title: "Became dead", unit: "ops", targets: [perSecond(own.dead)] },
      {
        title: "Attempts per success",
        unit: "short",
        targets: [
          {
            expr: mean(own.attemptsPerSuccess, byKind, ofKind),
            legend: "{{namespace}} {{queue}} {{kind}}",
          },
          {
            expr: quantile(0.99, own.attemptsPerSuccess, byKind, ofKind),
            legend: "{{namespace}} {{queue}} {{kind}} p99",
          },
        ],
      },
      { title: "Retry ratio", unit: "percentunit", targets: [perQueue(database.retries)] },
      {
        title: "Cancelled, snoozed, parked, released",
        unit: "ops",
        targets: [own.cancelled, own.expired, own.snoozed, own.parked, own.released].map(perSecond),
      },
    ],
  },
  {
    title: "Latency",
    charts: [
      { title: "Queue time", unit: "s", targets: percentiles(own.wait) },
      { title: "Run time", unit: "s", targets: percentiles(own.run) },
      {
        title: "Slow jobs",
        unit: "short",
        targets: [{ expr: maxBy([], select(database.slow)), legend: "{{namespace}} running now" }],
      },
      { title: "Became slow", unit: "ops", targets: [perSecond(own.slow)] },
      { title: "Stalled", unit: "ops", targets: [perSecond(own.stalled)] },
    ],
  },
  {
    title: "Workers",
    charts: [
      {
        title: "Slots by pool",
        unit: "short",
        stacked: true,
        targets: [
          { expr: sumBy(["pool", "state"], select(own.slots)), legend: "{{namespace}} {{pool}} {{state}}" },
        ],
      },
      {
        title: "Slots by queue",
        unit: "short",
        targets: [
          {
            expr: maxBy(["queue", "state"], select(database.queueSlots, ofQueue)),
            legend: "{{namespace}} {{queue}} {{state}}",
          },
        ],
      },
      {
        title: "Claimed jobs waiting for a slot",
        unit: "short",
        targets: [{ expr: sumBy(["pool"], select(own.waiting)), legend: "{{namespace}} {{pool}}" }],
      },
      {
        title: "Workers",
        unit: "short",
        targets: [
          { expr: maxBy([], select(database.workers)), legend: "{{namespace}} all" },
          perQueue(database.queueWorkers),
          perQueue(database.workersRecommended),
          { expr: sumBy([], select(own.draining)), legend: "{{namespace}} draining" },
        ],
      },
      {
        title: "Longest drain of a worker in the last hour",
        unit: "s",
        targets: [{ expr: maxBy([], select(database.workerDrain)), legend: "{{namespace}}" }],
      },
      {
        title: "Worker stops in the last hour",
        unit: "short",
        targets: [{ expr: maxBy([], select(database.stops)), legend: "{{namespace}}" }],
      },
      {
        title: "Leases expired and lost",
        unit: "ops",
        targets: [perSecond(own.rescued), perSecond(own.leaseLost)],
      },
    ],
  },
];

/** A Grafana dashboard, ready to import. */
export function grafanaDashboard(
  counts: readonly MetricDefinition[] = Object.values(counterMetrics),
): object {
  return {
    title: "Stint",
    uid: "stint",
    tags: ["stint"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    templating: { list: [datasourceVariable, variable("queue", {}), variable("kind", ofQueue)] },
    annotations: { list: [deploys] },
    panels: placed([...rows, ...rowOfOthers(counts)]),
  };
}

const datasourceVariable = {
  name: "datasource",
  label: "Data source",
  type: "datasource",
  query: "prometheus",
};

function variable(label: string, match: Record<string, string>): object {
  return {
    name: label,
    type: "query",
    datasource,
    query: `label_values(${select(database.jobs, match)}, ${label})`,
    includeAll: true,
    multi: true,
    allValue: ".*",
    refresh: 2,
    sort: 1,
    current: { text: "All", value: "$__all" },
  };
}

/** A version that did not run five minutes ago. */
const versions = sumBy(["version"], select(own.build));
const deploys = {
  name: "Deploys",
  datasource,
  enable: true,
  iconColor: "blue",
  expr: `${versions} unless ${sumBy(["version"], `${select(own.build)} offset 5m`)}`,
  titleFormat: "stint {{version}}",
};

/** A chart for each counter that no row above shows, so that a new counter is never left out. */
function rowOfOthers(counts: readonly MetricDefinition[]): Row[] {
  const shown = JSON.stringify(rows);
  const charts = counts
    .filter(({ name }) => !shown.includes(name))
    .map((metric): Chart => ({ title: metric.name, unit: "ops", targets: [perSecond(metric)] }));
  return charts.length === 0 ? [] : [{ title: "Other counters", charts }];
}

/** Three charts side by side under each row title. */
function placed(all: readonly Row[]): object[] {
  const panels: object[] = [];
  let y = 0;
  for (const { title, charts } of all) {
    panels.push({ id: panels.length + 1, type: "row", title, gridPos: { x: 0, y, w: 24, h: 1 } });
    y += 1;
    for (const [index, chart] of charts.entries()) {
      panels.push(panel(chart, panels.length + 1, { x: (index % 3) * 8, y: y + Math.floor(index / 3) * 8 }));
    }
    y += Math.ceil(charts.length / 3) * 8;
  }
  return panels;
}

function panel({ title, unit, targets, stacked }: Chart, id: number, at: { x: number; y: number }): object {
  return {
    id,
    type: "timeseries",
    title,
    datasource,
    gridPos: { ...at, w: 8, h: 8 },
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: stacked === undefined ? {} : { fillOpacity: 30, stacking: { mode: "normal" } },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: "list", placement: "bottom" },
      tooltip: { mode: "multi", sort: "desc" },
    },
    targets: targets.map(({ expr, legend }, index) => ({
      refId: String.fromCodePoint(65 + index),
      datasource,
      expr,
      legendFormat: legend,
    })),
  };
}
