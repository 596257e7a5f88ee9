import { describe, expect, test } from "vitest";
import { alertRules } from "#stint/telemetry/alerts.js";
import { grafanaDashboard } from "#stint/telemetry/grafana.js";
import { deployment } from "#stint/telemetry/kubernetes.js";
import { metrics, type MetricDefinition } from "#stint/telemetry/registry.js";
import { defineJob, entry, typed } from "#stint/index.js";
import { jsonOf, project, stint } from "../cli/support.ts";
import { query } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";

type Scaled = {
  advanced: {
    horizontalPodAutoscalerConfig: { behavior: { scaleDown: { stabilizationWindowSeconds: number } } };
  };
  triggers: { metadata: { query: string } }[];
};

const byName = new Map(metrics().map((metric) => [metric.name, metric]));

/** Every text under these keys, however deep. */
function textsIn(value: unknown, keys: readonly string[]): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    typeof item === "string" && keys.includes(key) ? [item] : textsIn(item, keys),
  );
}

/** The metrics that an expression names, each with the labels asked of it; a histogram by the name of its series, too. */
function faultsIn(expression: string): string[] {
  const faults: string[] = [];
  const labelsOf = (name: string): readonly string[] | undefined => {
    const series = /^(.*)_(?:bucket|sum|count)$/.exec(name);
    const base = byName.get(series?.[1] ?? "");
    if (base?.type === "histogram") return name.endsWith("_bucket") ? [...base.labels, "le"] : base.labels;
    const metric: MetricDefinition | undefined = byName.get(name);
    return metric === undefined || metric.type === "histogram" ? undefined : metric.labels;
  };
  const require = (name: string, labels: readonly string[]): void => {
    const known = labelsOf(name);
    if (known === undefined) faults.push(`${name} is not a series`);
    // Those that Prometheus adds are on every series.
    const own = labels.filter((label) => label !== "job" && label !== "namespace");
    for (const label of own) if (known?.includes(label) === false) faults.push(`${name} has no ${label}`);
  };
  for (const [, name = "", inside = ""] of expression.matchAll(/\b(stint_\w+)(?:\{([^}]*)\})?/g)) {
    require(name, [...inside.matchAll(/(\w+)\s*(?:=~|!~|!=|=)"[^"]*"/g)].map(([, label = ""]) => label));
  }
  for (const { labels, body } of aggregations(expression)) {
    for (const [name] of body.matchAll(/\bstint_\w+/g)) require(name, labels);
  }
  for (const [, label = ""] of expression.matchAll(/^label_values\(.*, (\w+)\)$/g)) {
    for (const [name] of expression.matchAll(/\bstint_\w+/g)) require(name, [label]);
  }
  for (const [, inside = ""] of expression.matchAll(/\bon \(([^)]*)\)/g)) {
    for (const [name] of expression.matchAll(/\bstint_\w+/g)) require(name, inside.split(", "));
  }
  if (!/\bstint_\w+/.test(expression)) faults.push("names no metric");
  return faults;
}

function aggregations(expression: string): { labels: string[]; body: string }[] {
  return [...expression.matchAll(/\bby \(([^)]*)\) \(/g)].map((match) => {
    const start = match.index + match[0].length;
    let depth = 1;
    let end = start;
    for (; depth > 0 && end < expression.length; end += 1) {
      depth += expression[end] === "(" ? 1 : expression[end] === ")" ? -1 : 0;
    }
    return { labels: match[1]!.split(", "), body: expression.slice(start, end) };
  });
}

test("the check finds a metric or a label that does not exist", () => {
  for (const wrong of [
    "stint_job",
    "rate(stint_job_run_seconds[5m])",
    'stint_jobs{tenant="x"}',
    "sum by (pool) (rate(stint_jobs_claimed_total[5m]))",
    "sum by (le) (stint_workers)",
    "label_values(stint_jobs, pool)",
    "stint_workers > on (queue) stint_slow_jobs",
    "up == 0",
  ]) {
    expect({ wrong, faults: faultsIn(wrong).length > 0 }).toEqual({ wrong, faults: true });
  }
});

describe("every metric in every expression is registered with those labels", () => {
  const dashboard = textsIn(grafanaDashboard(), ["expr", "query"]).filter((text) => text !== "prometheus");
  const rules = textsIn(alertRules(), ["expr"]);

  test.each([...new Set([...dashboard, ...rules])])("%s", (expression) => {
    expect(faultsIn(expression)).toEqual([]);
    const count = (one: string): number => expression.split(one).length;
    expect([count("("), count("{")]).toEqual([count(")"), count("}")]);
  });

  test("the Grafana dashboard shows every metric", () => {
    const shown = dashboard.join("\n");
    expect(metrics().filter(({ name }) => !shown.includes(name))).toEqual([]);
  });

  test("a counter that no panel names gets a panel of its own", () => {
    const sneezed = {
      name: "stint_jobs_sneezed_total",
      type: "counter",
      unit: "jobs",
      help: "Sneezes.",
    } as const;
    const added = { ...sneezed, labels: ["queue", "kind"], source: "process" } as const;
    const titles = textsIn(grafanaDashboard([added]), ["title"]);
    expect(titles.slice(-2)).toEqual(["Other counters", "stint_jobs_sneezed_total"]);
    expect(textsIn(grafanaDashboard(), ["title"])).not.toContain("Other counters");
  });

  test("legends and messages use only labels that the expression keeps", () => {
    for (const { expr, annotations } of alertRules().groups[0]!.rules) {
      const named = [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label);
      const kept = aggregations(expr).flatMap(({ labels }) => labels);
      expect(kept).toEqual(expect.arrayContaining(named));
    }
  });
});

test("every aggregation and match keeps job and namespace", () => {
  const all = [...textsIn(grafanaDashboard(), ["expr"]), ...textsIn(alertRules(), ["expr"])];
  expect(all.length).toBeGreaterThan(30);
  for (const expression of all) {
    // What is absent has no labels.
    if (expression.startsWith("absent(")) continue;
    expect(expression).not.toMatch(/\b(?:sum|max|min|avg|count)\s*\(/);
    expect(expression).not.toContain("without (");
    const lists = [...expression.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].map(([, labels = ""]) =>
      labels.split(", "),
    );
    expect({ expression, bare: lists.length === 0 }).toEqual({ expression, bare: false });
    for (const labels of lists) expect(labels).toEqual(expect.arrayContaining(["job", "namespace"]));
  }
  const legends = textsIn(grafanaDashboard(), ["legendFormat"]);
  for (const legend of legends) expect(legend).toContain("{{namespace}}");
});

test("StintDead fires for new and for day-old dead jobs, not for any dead job", () => {
  const dead = alertRules().groups[0]!.rules.filter(({ alert }) => alert === "StintDead");
  const [fresh, old] = dead.map(({ expr }) => expr);

  expect(dead).toHaveLength(2);
  expect(fresh).toContain("increase(stint_jobs_dead_total[15m])");
  // A kind with its first dead job, whose counter has no increase yet.
  expect(fresh).toMatch(
    /stint_jobs\{state="dead"\}\) > 0 unless .*stint_jobs\{state="dead"\} offset 15m\) > 0$/,
  );
  expect(old).toMatch(/\(stint_oldest_dead_age_seconds\) > 86400$/);
});

test("the Grafana dashboard has variables, and panels that do not overlap", () => {
  const { templating, panels } = grafanaDashboard() as {
    templating: { list: { name: string }[] };
    panels: { id: number; gridPos: { x: number; y: number; w: number; h: number } }[];
  };
  expect(templating.list.map(({ name }) => name)).toEqual(["datasource", "queue", "kind"]);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  for (const { id, gridPos: a } of panels) {
    expect(a.x + a.w).toBeLessThanOrEqual(24);
    for (const { id: other, gridPos: b } of panels) {
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
      expect(id === other || apart).toBe(true);
    }
  }
});

test("the grace period of the Deployment is longer than a stop may take", () => {
  const options = { name: "w", image: "i", port: 1, drainMs: 60_000, abortMs: 1_500 };
  expect(JSON.stringify(deployment(options))).toContain('"terminationGracePeriodSeconds":66');
});

describe("stint export", () => {
  test("grafana and alerts print importable files without config or database", async () => {
    expect(jsonOf(await stint(["export", "grafana"]))).toEqual(grafanaDashboard());
    expect(jsonOf(await stint(["export", "alerts", "--json"]))).toEqual(alertRules());
    const { code, stdout } = await stint(["export", "alerts"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^groups:\n {2}- name: stint\n {4}rules:\n {6}- alert: StintOldestReadyTooOld\n/);
  });

  test("k8s takes the grace period from the config", async () => {
    const config = `export default { worker: { pools: { default: 1 }, handlers: [], drain: "2m", abort: "10s" } };`;
    const cwd = await project({ "stint.config.ts": config });
    const { stdout } = await stint(["export", "k8s", "--name", "jobs", "--health-port", "9000"], { cwd });

    expect(stdout).toContain("terminationGracePeriodSeconds: 134\n");
    expect(stdout).toContain("path: /livez\n");
    expect(stdout).toContain('value: "9000"\n');
  });

  test("k8s --keda queries the workers needed for the pools of the config", async () => {
    const fresh = await freshSchema();
    const pools = `{ default: 4, mail: { queues: ["a", "b"], slots: 2 } }`;
    const cwd = await project({
      "stint.config.ts": `import { defineJob, handle, typed } from "stint"; const note = defineJob("note", { payload: typed() });
        export default { schema: "${fresh.schema}", worker: { pools: ${pools}, handlers: [handle(note, () => {})], drain: "10m" } };`,
    });
    const args = ["export", "k8s", "--keda", "--name", "jobs", "--target", "90s", "--most", "7", "--json"];
    const { items } = jsonOf(await stint(args, { cwd })) as {
      items: { kind: string; spec: Record<string, never> }[];
    };
    expect(items.map(({ kind }) => kind)).toEqual(["Deployment", "TriggerAuthentication", "ScaledObject"]);
    const [own, access, scaled] = items.map(({ spec }) => spec) as [object, object, Scaled];
    expect(own).not.toHaveProperty("replicas");
    expect(access).toEqual({
      secretTargetRef: [{ parameter: "connection", name: "jobs", key: "database-url" }],
    });
    expect(scaled).toMatchObject({
      scaleTargetRef: { name: "jobs" },
      minReplicaCount: 1,
      maxReplicaCount: 7,
    });
    expect(scaled.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds).toBe(
      1_200,
    );

    // As the autoscaler does: the text as it stands, one row, one number.
    const { query: text, ...rest } = scaled.triggers[0]!.metadata;
    expect(rest).toEqual({ targetQueryValue: "1", activationTargetQueryValue: "0" });
    expect(Object.values((await query(text))[0]!)).toEqual([0]);
    await fresh
      .client()
      .enqueueMany(
        Array.from({ length: 900 }, () =>
          entry(defineJob("note", { queue: "a", payload: typed<object>() }), {}),
        ),
      );
    // 900 jobs of a second each in 90 s are ten slots, and a worker has two for them.
    expect(Object.values((await query(text))[0]!)).toEqual([5]);
    expect((await stint(args.slice(0, -1), { cwd })).stdout).toContain("kind: ScaledObject\n");
  });

  test("k8s with --keda needs a config", async () => {
    const cwd = await project({});
    const { code, stderr } = await stint(["export", "k8s", "--keda"], { cwd });
    expect(code).not.toBe(0);
    expect(stderr).toContain("needs to know the pools");
  });

  test("other targets are wrong usage", async () => {
    expect(await stint(["export", "helm"])).toMatchObject({ code: 2 });
    expect(await stint(["export", "k8s", "--health-port", "0"])).toMatchObject({ code: 2 });
  });
});
