import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { toYaml } from "#stint/runtime/yaml.js";
import { stint } from "../cli/support.ts";
import { freshSchema } from "../support/fresh.ts";

const folder = fileURLToPath(new URL("../../../../examples/autoscaling-keda/", import.meta.url));
const read = (name: string): string => readFileSync(`${folder}${name}`, "utf8");

test("the postgresql manifest of the KEDA example is the one that the CLI prints", async () => {
  const flags = ["--name", "images", "--image", "registry.example/app:1.4", "--target", "5s", "--max", "20"];
  const { code, stdout } = await stint(["export", "k8s", "--keda", ...flags], { cwd: folder });
  expect(code).toBe(0);
  expect(read("postgresql.yml")).toBe(stdout);
});

test("the metrics-api manifest of the KEDA example names a field of the recommendation", async () => {
  const url = "http://stint-dashboard/api/capacity?queues=images&slots=2&target=5s&max=20";
  const valueLocation = "recommended";
  expect(read("metrics-api.yml")).toBe(
    toYaml({
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
      metadata: { name: "images" },
      spec: {
        scaleTargetRef: { name: "images" },
        pollingInterval: 15,
        minReplicaCount: 1,
        maxReplicaCount: 20,
        triggers: [
          {
            type: "metrics-api",
            metadata: { url, valueLocation, targetValue: "1", authMode: "bearer" },
            authenticationRef: { name: "stint-dashboard" },
          },
        ],
      },
    }),
  );
  const { queues, slots, target, max } = Object.fromEntries(new URL(url).searchParams);
  const fresh = await freshSchema();
  const seen = await fresh
    .client()
    .inspector()
    .capacity({
      pools: [{ name: "images", queues: [queues ?? ""], slots: Number(slots) }],
      target: target ?? "",
      max: Number(max),
    });
  expect(seen[valueLocation]).toBe(1);
});
