export type KubernetesOptions = {
  readonly name: string;
  readonly image: string;
  readonly port: number;
  readonly drainMs: number;
  readonly abortMs: number;
};

/** What a stop may take beyond `drain` and `abort`: to record, to hand back and to say goodbye. */
const stopMs = 4_000;

/**
 * A Deployment for the worker. No autoscaler: a number of workers that takes age, limits and breakers into account is not
 * told by the database yet, and scaling by depth alone is worse than none.
 */
export function deployment({ name, image, port, drainMs, abortMs }: KubernetesOptions): object {
  const labels = { "app.kubernetes.io/name": name, "app.kubernetes.io/component": "stint-worker" };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels },
    spec: {
      replicas: 2,
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
