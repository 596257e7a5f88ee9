import { defineConfig } from "vitest/config";

/** Apart from the suite: its clients are installed by `npm run test:orms` only. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["lab/orms/*.test.ts"],
    globalSetup: ["packages/stint/test/support/global-setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: "forks",
    isolate: false,
  },
});
