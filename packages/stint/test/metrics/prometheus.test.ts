import { describe, expect, test } from "vitest";
import type { Capacity, PoolCapacity } from "#stint/inspect/capacity.js";
import type { Depth, Health, Inspector, QueueHealth, Stats } from "#stint/inspect/types.js";
import type { WorkerStop } from "#stint/sql/workers.js";
import { renderMetrics } from "#stint/telemetry/database-metrics.js";
import { bounds } from "#stint/telemetry/histogram.js";
import { Meter } from "#stint/telemetry/meter.js";
import { processSamples, renderProcessMetrics } from "#stint/telemetry/process-metrics.js";
import { renderSamples } from "#stint/telemetry/prometheus.js";
import { databaseMetrics, metrics, processMetrics, registerMetric } from "#stint/telemetry/registry.js";
import { parse } from "./parse.ts";

describe("the text", () => {
  const { jobs, run } = { ...databaseMetrics, ...processMetrics };

  test("escapes label values, so that none can forge a line", () => {
    const evil = 'a"b\\c\nstint_forged 1\n# TYPE x gauge\r\t💥';
    const text = renderSamples([
      { metric: jobs, samples: [{ labels: { queue: evil, kind: "\\n", state: "ready" }, value: 3 }] },
    ]);
    expect([...parse(text).keys()]).toEqual(["stint_jobs"]);
    expect(parse(text).get("stint_jobs")!.samples).toEqual([
      { name: "stint_jobs", labels: { queue: evil, kind: "\\n", state: "ready" }, value: 3 },
    ]);
  });

  test("writes cumulative histograms with +Inf, sum and count", () => {
    const meter = new Meter();
    const { run: spent } = meter.of("default", "note");
    for (const ms of [0.5, 1, 3, 40, 1_000, 7_200_000]) spent.add(ms);
    const text = renderProcessMetrics([{ meter, pools: [], state: "running" }]);
    const { samples, type } = parse(text).get(run.name)!;

    expect(type).toBe("histogram");
    const upTo = (le: string): number | undefined => samples.find(({ labels }) => labels["le"] === le)?.value;
    expect(["0.001", "0.0025", "0.005", "0.05", "1", "3600", "+Inf"].map(upTo)).toEqual([
      2, 2, 3, 4, 5, 5, 6,
    ]);
    expect(samples.filter(({ name }) => name.endsWith("_bucket"))).toHaveLength(bounds.length + 1);
    expect(samples.find(({ name }) => name.endsWith("_sum"))!.value).toBeCloseTo(7_201.0445);
  });

  test("writes the histogram of attempts with its own bounds", () => {
    const meter = new Meter();
    const kind = meter.of("default", "note");
    for (const attempts of [1, 1, 2, 6, 30]) {
      kind.attempts.add(attempts);
      kind.attemptsOfSucceeded += attempts;
    }
    const text = renderProcessMetrics([{ meter, pools: [], state: "running" }]);
    const { samples } = parse(text).get("stint_attempts_per_success")!;

    const upTo = (le: string): number | undefined => samples.find(({ labels }) => labels["le"] === le)?.value;
    expect(["1", "2", "5", "7", "25", "+Inf"].map(upTo)).toEqual([2, 3, 3, 4, 4, 5]);
    expect(samples.find(({ name }) => name.endsWith("_sum"))!.value).toBe(40);
  });

  test("leaves out metrics without samples", () => {
    expect(renderSamples([{ metric: jobs, samples: [] }])).toBe("");
  });

  const head = "# HELP a b.\n# TYPE a gauge\n";
  const histogramHead = "# HELP a b.\n# TYPE a histogram\n";
  test.each([
    ["a 1\n", "before its TYPE"],
    [`${head}a 1`, "does not end"],
    [`${head}a 1\na 2\n`, "comes twice"],
    [`${head}a 1\n${head}a{x="1"} 1\n`, "comes twice"],
    [`${head}b 1\n`, "stands among"],
    [`${head}a{} 1\n`, "empty braces"],
    [`${head}a{x="1",} 1\n`, "labels are wrong"],
    [`${head}a{x="\\t"} 1\n`, "escape that does not exist"],
    [`${head}a{x="1",x="2"} 1\n`, "comes twice"],
    [`${head}a one\n`, "is no number"],
    [head, "has no samples"],
    [`${histogramHead}a_bucket{le="1"} 1\na_sum 1\na_count 1\n`, "has no +Inf"],
    [`${histogramHead}a_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n`, "is not cumulative"],
    [`${histogramHead}a_bucket{le="+Inf"} 2\na_sum 1\na_count 1\n`, "is not its last bucket"],
  ])("the parser of this test refuses %j", (wrong, why) => {
    expect(() => parse(wrong)).toThrow(why);
  });
});

describe("labels are bounded", () => {
  test("kinds beyond 200 are combined as other, and no count is lost", () => {
    const meter = new Meter();
    for (let index = 0; index < 250; index += 1) {
      const kind = meter.of("default", `kind-${index}`);
      kind.claimed = index;
      kind.run.add(1_000);
    }
    meter.of("other", "other").claimed = 1_000;
    const families = parse(renderProcessMetrics([{ meter, pools: [], state: "running" }]));

    const claimed = families.get("stint_jobs_claimed_total")!.samples;
    expect(claimed).toHaveLength(201);
    expect(claimed.reduce((sum, { value }) => sum + value, 0)).toBe((249 * 250) / 2 + 1_000);
    expect(claimed.filter(({ labels }) => labels["kind"] === "other")).toEqual([
      {
        name: "stint_jobs_claimed_total",
        labels: { queue: "other", kind: "other" },
        value: claimed.at(-1)!.value,
      },
    ]);
    const run = families.get("stint_job_run_seconds")!.samples;
    expect(run.find(({ name, labels }) => name.endsWith("_count") && labels["kind"] === "other")!.value).toBe(
      50,
    );
  });

  test("a counter keeps its separate names when new names sort before them", async () => {
    const named = (index: number): Stats["arrivals"][number] => ({
      queue: "default",
      kind: `kind-${String(index).padStart(3, "0")}`,
      count: 1_000_000,
    });
    let arrivals = Array.from({ length: 200 }, (_each, index) => named(index));
    const given = inspector({});
    const one = {
      health: async () => await given.health(),
      stats: async () => ({ ...(await given.stats()), arrivals }),
    };
    const read = async (): Promise<Map<string | undefined, number>> => {
      const { samples } = parse(await renderMetrics(one)).get("stint_jobs_enqueued_total")!;
      return new Map(samples.map(({ labels, value }) => [labels["kind"], value]));
    };
    const before = await read();
    expect(before.get("other")).toBeUndefined();
    arrivals = [{ queue: "default", kind: "a-new-one", count: 1 }, ...arrivals];
    const after = await read();

    expect(after.get("other")).toBe(1);
    for (const [kind, value] of before) expect(after.get(kind)).toBe(value);
  });

  test("ages beyond the limit are combined by maximum, not by sum", async () => {
    const queues = Array.from({ length: 210 }, (_each, index) =>
      queue(`q${index}`, { oldestReadyMs: 1_000 + index }),
    );
    const families = parse(await renderMetrics(inspector({ queues })));

    const ages = families.get("stint_oldest_ready_age_seconds")!.samples;
    expect(ages).toHaveLength(201);
    expect(ages.at(-1)).toMatchObject({ labels: { queue: "other" }, value: 1.209 });
  });

  test("the drain of a worker counts for an hour", async () => {
    const families = parse(await renderMetrics(inspector({})));
    expect(families.get("stint_worker_stops")!.samples).toMatchObject([{ value: 1 }]);
    expect(families.get("stint_worker_drain_seconds")!.samples).toMatchObject([{ value: 1.5 }]);
  });

  test("the workers of one process are added up", () => {
    const meters = [new Meter(), new Meter()];
    for (const meter of meters) meter.of("default", "note").succeeded = 2;
    const workers = meters.map((meter) => ({
      meter,
      pools: [{ pool: "default", slots: 5, busy: 2, waiting: 1 }],
      state: "stopping",
    }));
    const families = parse(renderProcessMetrics(workers));

    expect(families.get("stint_jobs_completed_total")!.samples).toMatchObject([{ value: 4 }]);
    expect(families.get("stint_worker_slots")!.samples).toMatchObject([
      { labels: { pool: "default", state: "busy" }, value: 4 },
      { labels: { pool: "default", state: "free" }, value: 6 },
    ]);
    expect(families.get("stint_worker_waiting")!.samples).toMatchObject([{ value: 2 }]);
    expect(families.get("stint_worker_draining")!.samples).toMatchObject([{ labels: {}, value: 2 }]);
  });
});

describe("the registry", () => {
  test("the rendered metrics are the registered ones, with the same labels", async () => {
    const meter = new Meter();
    meter.of("default", "note").run.add(1);
    const pools = [{ pool: "default", slots: 1, busy: 0, waiting: 0 }];
    const process = renderProcessMetrics([{ meter, pools, state: "running" }]);
    const database = await renderMetrics(
      inspector({
        queues: [queue("default", { oldestReadyMs: 1, oldestDeadMs: 1, drainMs: 1, retryShare: 0.5 })],
        unserved: [{ kind: "note", queue: "default", oldestReadyMs: 5 }],
      }),
    );
    const rendered = { process: parse(process), database: parse(database) };
    for (const source of ["process", "database"] as const) {
      const registered = metrics().filter((metric) => metric.source === source);
      expect([...rendered[source].keys()].sort()).toEqual(registered.map(({ name }) => name).sort());
      for (const { name, type, labels, help } of registered) {
        const family = rendered[source].get(name)!;
        expect({ type: family.type, help: family.help }).toEqual({ type, help });
        for (const sample of family.samples) {
          expect(
            Object.keys(sample.labels)
              .filter((label) => label !== "le")
              .sort(),
          ).toEqual([...labels].sort());
        }
      }
    }
  });

  test.each([
    ["stint_Jobs", { name: "stint_Jobs" }],
    ["twice", { name: "stint_jobs" }],
    ["a counter without _total", { type: "counter" }],
    ["a gauge with _total", { name: "stint_x_total" }],
    ["seconds that are not named", { unit: "seconds" }],
    ["a tenant", { labels: ["tenant"] }],
    ["no help", { help: "" }],
  ] as const)("refuses %s", (_what, wrong) => {
    const right = {
      name: "stint_x",
      type: "gauge",
      unit: "jobs",
      help: "X.",
      labels: [],
      source: "process",
    } as const;
    expect(() => registerMetric({ ...right, ...wrong })).toThrow(/^metric stint_/);
  });

  test("the samples of a process have one entry for each metric", () => {
    const names = processSamples([]).map(({ metric }) => metric.name);
    expect(names).toEqual([...new Set(names)]);
    expect(names).toHaveLength(Object.keys(processMetrics).length);
  });
});

test("the database metrics match health and depth", async () => {
  const families = parse(
    await renderMetrics(
      inspector({
        queues: [
          queue("ocr", {
            oldestReadyMs: 1_500,
            workers: 2,
            slots: { busy: 3, total: 4, ahead: 0 },
            retryShare: 0.25,
          }),
          queue("idle", {}),
        ],
      }),
    ),
  );
  const read = (name: string): unknown[] =>
    families.get(name)!.samples.map(({ labels, value }) => Object.values<unknown>(labels).concat(value));

  expect(read("stint_jobs_enqueued_total")).toEqual([["ocr", "scan", 12]]);
  expect(read("stint_jobs")).toContainEqual(["ocr", "scan", "ready", 7]);
  expect(read("stint_jobs")).toContainEqual(["ocr", "scan", "dead", 1]);
  expect(read("stint_oldest_ready_age_seconds")).toEqual([
    ["ocr", 1.5],
    ["idle", 0],
  ]);
  expect(read("stint_oldest_ready_target_seconds")).toContainEqual(["ocr", 300]);
  expect(read("stint_queue_slots")).toContainEqual(["ocr", "free", 1]);
  expect(read("stint_queue_workers")).toContainEqual(["ocr", 2]);
  // Not known is not 0.
  expect(read("stint_retry_ratio")).toEqual([["ocr", 0.25]]);
  expect(families.has("stint_queue_drain_seconds")).toBe(false);
  expect(read("stint_slow_jobs")).toEqual([[2]]);
  expect(read("stint_workers")).toEqual([[3]]);
});

const empty: Depth = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };
const unknown = { p50: null, p95: null, p99: null };

function queue(name: string, given: Partial<QueueHealth>): QueueHealth {
  return {
    queue: name,
    depth: empty,
    oldestReadyMs: null,
    targetMs: 300_000,
    targetFrom: { source: "default", setFor: null },
    paused: null,
    breachInMs: null,
    rates: { arrived: 0, claimed: 0, ended: 0, succeeded: 0, failed: 0, retried: 0, dead: 0 },
    drainMs: null,
    retryShare: null,
    oldestDeadMs: null,
    wait: unknown,
    run: unknown,
    slots: { busy: 0, total: 0, ahead: 0 },
    workers: 0,
    recent: [],
    ...given,
  };
}

function stop(ms: number, stoppedAt: Date): WorkerStop {
  return {
    worker: "w",
    host: "h",
    version: "v",
    startedAt: stoppedAt,
    stoppedAt,
    drained: 1,
    released: 0,
    ms,
  };
}

function inspector(given: Partial<Health>): Pick<Inspector, "health" | "stats" | "capacity" | "stops"> {
  const depth = { ...empty, ready: 7, dead: 1 };
  return {
    health: async () => ({
      at: new Date(0),
      queues: [],
      total: empty,
      workers: 3,
      slow: 2,
      unserved: [],
      ...given,
    }),
    stats: async () =>
      ({
        byKind: [{ kind: "scan", queue: "ocr", depth }],
        arrivals: [{ kind: "scan", queue: "ocr", count: 12 }],
      }) as Partial<Stats> as Stats,
    capacity: async () =>
      ({
        pools: [{ pool: "default", recommended: 2 }] as Partial<PoolCapacity>[],
      }) as Partial<Capacity> as Capacity,
    stops: async () => [stop(1_500, new Date(0)), stop(9_000, new Date(-3_600_001))],
  };
}
