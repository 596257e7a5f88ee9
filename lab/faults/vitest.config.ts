import { defineConfig } from "vitest/config";

/** Apart from the suite: these tests wait for real outages of half a minute. Run them with `npm run lab:faults`. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["lab/faults/*.test.ts"],
    globalSetup: ["packages/stint/test/support/global-setup.ts"],
    testTimeout: 300_000,
    hookTimeout: 120_000,
    pool: "forks",
    maxWorkers: 1,
  },
});
