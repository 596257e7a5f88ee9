export type KubernetesOptions = {
  readonly name: string;
  readonly image: string;
  readonly port: number;
  readonly drainMs: number;
  readonly abortMs: number;
};

/** What a stop may take beyond `drain` and `abort`: to record, to hand back and to say goodbye. */
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
      // Said here, the number would be set back to it whenever the Deployment is applied.
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
          // Killed before it has drained, a worker leaves its jobs to their leases, and each counts a crash.
          terminationGracePeriodSeconds: Math.ceil((drainMs + abortMs + stopMs) / 1_000),
          containers: [container({ name, image, port })],
        },
      },
    },
  };
}

export type ScalingOptions = KubernetesOptions & {
  readonly most: number;
  /** Tells how many workers are needed. */
  readonly query: string;
};

/** The same, with as many workers as there is work: by KEDA, which must be installed in the cluster. */
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
          // Never none: somebody must make scheduled jobs ready when they are due, and take back what a dead worker left.
          minReplicaCount: 1,
          maxReplicaCount: most,
          advanced: {
            horizontalPodAutoscalerConfig: {
              behavior: {
                scaleDown: {
                  // Every worker that goes drains first, and what it had to hand back begins again elsewhere.
                  stabilizationWindowSeconds: Math.max(300, Math.ceil((2 * drainMs) / 1_000)),
                  policies: [{ type: "Percent", value: 50, periodSeconds: 60 }],
                },
              },
            },
          },
          triggers: [
            {
              type: "postgresql",
              // The query answers with the number of workers itself, so each is worth one.
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
    // Not by way of npx, which would be what gets the signal.
    command: ["node", "node_modules/stint/bin/stint.js", "worker"],
    env: [
      { name: "DATABASE_URL", valueFrom: { secretKeyRef: { name, key: "database-url" } } },
      { name: "STINT_HEALTH_PORT", value: String(port) },
      { name: "STINT_HEALTH_HOST", value: "0.0.0.0" },
    ],
    ports: [{ name: "health", containerPort: port }],
    startupProbe: { ...probe("/startupz"), periodSeconds: 2, failureThreshold: 60 },
    // A handler that holds the event loop for a while is no reason to kill it: its lease is kept meanwhile.
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
