import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts", "bench/core/*.test.ts"],
    globalSetup: ["packages/stint/test/support/global-setup.ts"],
    reporters: ["default", "./packages/stint/test/support/closing-line.ts"],
    // On a submission only: a test that raced is shown as retried, and is to be mended; it does not turn away an evening's work.
    retry: Number(process.env["STINT_TEST_RETRY"] ?? 0),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    // Most tests wait for Postgres or for a child process, not for a core.
    maxWorkers: 3,
  },
});
