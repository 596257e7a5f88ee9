import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const settings = {
  // Twice what a test waits for an event (test/support/until.ts), so that its message is seen before the runner's. Full sizes take longer.
  testTimeout: process.env["STINT_TEST_LAB"] === "1" ? 600_000 : 120_000,
  hookTimeout: 120_000,
  pool: "forks" as const,
  // The built library is loaded by Node itself: to transform it again in every process costs more than most tests.
  server: { deps: { external: [/\/packages\/(?:stint|dashboard)\/dist\//] } },
  // Most tests wait: for Postgres, a child process, a lease or a deadline. With fewer, two cores would be idle meanwhile.
  maxWorkers: 5,
};

const all = ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts", "bench/core/*.test.ts"];

/** Files that change their process (globals, signals, threads, memory), each in one of its own. The others share: to start one costs more than most files. */
const apart = ["packages/stint/test/{embedded,health,tracing}/**/*.test.ts"];

/** A browser takes two seconds of CPU for a test: `npm run test:browser` runs these, `npm test` does not. */
const inBrowser = ["packages/dashboard/test/browser/**/*.test.ts"];

/** Files that mostly wait for leases and deadlines to run out, for up to a minute. Begun last, they would be all that still runs. */
const waiting =
  /\/(?:late-enqueue|late-claim|lost-connection|outage|frozen-claim|lease-thread|paused|completion|statement-timeout|inspector|sleep|timeout|pgbouncer|crash\/steps|crash\/pauses|dev|firing|recovery)\.test\.ts$/;

/** Those apart first, then the others, which must follow each other, or their process would be ended between two. */
class ApartFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const apart = sorted.filter(({ project }) => project.name === "apart");
    const others = sorted.filter((file) => !apart.includes(file));
    const waits = others.filter(({ moduleId }) => waiting.test(moduleId));
    const works = others.filter((file) => !waits.includes(file));
    // One that waits among each three that work: together they would leave the cores idle.
    return [
      ...apart,
      ...works.flatMap((file, n) => (n % 3 === 0 ? waits.splice(0, 1) : []).concat(file)),
      ...waits,
    ];
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
          include: apart,
        },
      },
      {
        test: {
          ...settings,
          name: "together",
          include: all,
          exclude: ["**/node_modules/**", ...apart, ...inBrowser],
          isolate: false,
        },
      },
      {
        test: {
          ...settings,
          name: "browser",
          include: inBrowser,
          isolate: false,
        },
      },
    ],
  },
});
