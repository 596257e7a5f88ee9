import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const settings = {
  // Twice what a test waits for an event (test/support/until.ts), so that its message is seen before the runner's.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  pool: "forks" as const,
  // Most tests wait for Postgres or for a child process, not for a core.
  maxWorkers: 4,
};

/** Files that leave nothing behind in their process, one after the other in the same: starting one costs more than most of them. */
const together = [
  "packages/*/src/**/*.test.ts",
  "packages/*/test/*.test.ts",
  "packages/dashboard/test/browser/*.test.ts",
  "packages/stint/test/{cli,client,doctor,inspect,metrics,migrations,model,sql,telemetry,types,worker}/**/*.test.ts",
  "bench/core/*.test.ts",
];

/** Those apart first, for the longest are among them; the others follow each other, or their process would be ended between two. */
class ApartFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [...sorted].sort((a, b) => a.project.name.localeCompare(b.project.name));
  }
}

export default defineConfig({
  test: {
    globalSetup: [
      "packages/stint/test/support/global-setup.ts",
      "packages/dashboard/test/browser/support/global-setup.ts",
    ],
    reporters: ["default", "./packages/stint/test/support/closing-line.ts"],
    sequence: { sequencer: ApartFirst },
    maxWorkers: settings.maxWorkers,
    projects: [
      {
        test: {
          ...settings,
          name: "apart",
          include: ["packages/*/test/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...together],
        },
      },
      { test: { ...settings, name: "together", include: together, isolate: false } },
    ],
  },
});
