export type KubernetesOptions = {
  readonly name: string;
  readonly image: string;
  readonly port: number;
  readonly drainMs: number;
  readonly abortMs: number;
};

/** The time a stop needs beyond `drain` and `abort`: to record outcomes, release jobs and unregister. */
const stopMs = 4_000;

/** A Deployment for the worker. */
export function deployment(
  { name, image, port, drainMs, abortMs }: KubernetesOptions,
  { scaled = false } = {},
): object {
  const labels = labelsOf(name);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels },
    spec: {
      // A number here would reset the autoscaler's choice each time the Deployment is applied.
      ...(scaled ? {} : { replicas: 2 }),
      selector: { matchLabels: labels },
      template: {
        metadata: {
          labels,
          annotations: {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": String(port),
            "prometheus.io/path": "/metrics",
          },
        },
        spec: {
          // A worker that is killed before it drained leaves its jobs to their leases, and each counts as a crash.
          terminationGracePeriodSeconds: Math.ceil((drainMs + abortMs + stopMs) / 1_000),
          containers: [container({ name, image, port })],
        },
      },
    },
  };
}

export type ScalingOptions = KubernetesOptions & {
  readonly most: number;
  /** Returns how many workers are needed. */
  readonly query: string;
};

/** The same Deployment, scaled by KEDA to the workers that are needed. KEDA must be installed in the cluster. */
export function scaledDeployment(options: ScalingOptions): object {
  const { name, most, query, drainMs } = options;
  const metadata = { name, labels: labelsOf(name) };
  const connection = { parameter: "connection", name, key: "database-url" };
  const apiVersion = "keda.sh/v1alpha1";
  return {
    apiVersion: "v1",
    kind: "List",
    items: [
      deployment(options, { scaled: true }),
      { apiVersion, kind: "TriggerAuthentication", metadata, spec: { secretTargetRef: [connection] } },
      {
        apiVersion,
        kind: "ScaledObject",
        metadata,
        spec: {
          scaleTargetRef: { name },
          pollingInterval: 15,
          // Never zero: only a worker makes scheduled jobs ready when they are due, and rescues jobs of a dead worker.
          minReplicaCount: 1,
          maxReplicaCount: most,
          advanced: {
            horizontalPodAutoscalerConfig: {
              behavior: {
                scaleDown: {
                  // Each worker that stops drains first, and the jobs it releases start again on another worker.
                  stabilizationWindowSeconds: Math.max(300, Math.ceil((2 * drainMs) / 1_000)),
                  policies: [{ type: "Percent", value: 50, periodSeconds: 60 }],
                },
              },
            },
          },
          triggers: [
            {
              type: "postgresql",
              // The query returns the number of workers, so the target per worker is 1.
              metadata: { query, targetQueryValue: "1", activationTargetQueryValue: "0" },
              authenticationRef: { name },
            },
          ],
        },
      },
    ],
  };
}

function labelsOf(name: string): Record<string, string> {
  return { "app.kubernetes.io/name": name, "app.kubernetes.io/component": "stint-worker" };
}

function container({ name, image, port }: Pick<KubernetesOptions, "name" | "image" | "port">): object {
  return {
    name: "worker",
    image,
    // Not through npx, which would receive the signal instead of the worker.
    command: ["node", "node_modules/stint/bin/stint.js", "worker"],
    env: [
      { name: "DATABASE_URL", valueFrom: { secretKeyRef: { name, key: "database-url" } } },
      { name: "STINT_HEALTH_PORT", value: String(port) },
      { name: "STINT_HEALTH_HOST", value: "0.0.0.0" },
    ],
    ports: [{ name: "health", containerPort: port }],
    startupProbe: { ...probe("/startupz"), periodSeconds: 2, failureThreshold: 60 },
    // A handler that blocks the event loop for a while must not get the process killed: a thread renews its lease.
    livenessProbe: { ...probe("/livez"), periodSeconds: 10, failureThreshold: 6 },
    readinessProbe: { ...probe("/readyz"), periodSeconds: 5, failureThreshold: 2 },
    securityContext: {
      runAsNonRoot: true,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    },
  };
}

function probe(path: string): object {
  return { httpGet: { path, port: "health" }, timeoutSeconds: 5 };
}
