import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Ways to let time pass: in Node, in the browser, in a blocked thread and in the database. */
const wait = /(?<!\w)(?:setTimeout|setInterval|waitForTimeout|Atomics\.wait|pg_sleep)\b|timers\/promises/;

/**
 * Test files that let time pass, each with the reason. A test that needs an event takes `until`; one that shows that nothing happens
 * takes `passTime` or `untilSteady`. Those are in test/support, which is not searched.
 */
const allowed: Record<string, string> = {
  "packages/stint/src/upkeep/service-loop.test.ts": "overdue time is measured by the clock of this process",
  "packages/stint/src/worker/claim-loop.test.ts": "counts the turns of a loop that rests",
  "packages/stint/test/cli/completion.test.ts": "a config that keeps its process alive",
  "packages/stint/test/cli/dev.test.ts": "a handler in another process polls for a file",
  "packages/stint/test/cli/autoscale.test.ts": "a handler in another process polls for a file",
  "packages/stint/test/cli/processes.test.ts": "a handler in another process polls for a file",
  "packages/stint/test/cli/worker.test.ts": "a handler in another process polls for a file",
  "packages/stint/test/client/close.test.ts": "an asynchronous schema in another process",
  "packages/stint/test/crash/isolation.test.ts": "a handler in another process that blocks for ever",
  "packages/stint/test/crash/lease-thread.test.ts": "keeps the role's only connection in use",
  "packages/stint/test/embedded/kept.test.ts": "a statement that a shutdown ends",
  "packages/stint/test/fixtures/embedded-holder.mjs": "keeps its process alive",
  "packages/stint/test/fixtures/isolated/act.mjs": "a handler that never ends, and one that fills its memory",
  "packages/stint/test/fixtures/flow-control-process.mjs": "handlers that run for a moment, side by side",
  "packages/stint/test/fixtures/limits-process.mjs": "handlers that run for a moment, side by side",
  "packages/stint/test/fixtures/producer-process.mjs": "polls a full queue until it admits",
  "packages/stint/test/fixtures/worker-process.mjs": "a handler that blocks, or polls for its release",
  "packages/stint/test/health/healthcheck.test.ts":
    "a handler in another process polls, or blocks the event loop",
  "packages/stint/test/pooler/pgbouncer.test.ts":
    "a blocked event loop, and a statement that its time limit ends",
  "packages/stint/test/sql/enqueue.test.ts": "ids of different milliseconds",
  "packages/stint/test/worker/connections.test.ts":
    "statements that outlast a deadline, and a blocked event loop",
  "packages/stint/test/worker/large-pools.test.ts": "a handler that takes a moment",
  "packages/stint/test/worker/password.test.ts": "a blocked event loop",
  "packages/stint/test/worker/prefetch-processes.test.ts": "how long a handler runs decides the prefetch",
  "packages/stint/test/worker/prefetch.test.ts": "how long a handler runs decides the prefetch",
  "packages/stint/test/worker/statement-timeout.test.ts": "a statement slower than the limit of its role",
};

/** Files of tests, without what they share. */
function testFiles(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:ts|tsx|mjs)$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => /\.test\.tsx?$/.test(file) || /^packages\/\w+\/test\//.test(file))
    .filter(
      (file) =>
        !/\/(?:support|generated|node_modules|dist)\//.test(file) && !file.endsWith("/fixed-waits.test.ts"),
    );
}

test("no test waits for a fixed time, except where a reason is given", () => {
  const waiting = ["packages/stint/src", "packages/stint/test", "packages/dashboard/test", "bench/core"]
    .flatMap(testFiles)
    .filter((file) => readFileSync(join(root, file), "utf8").split("\n").some(waits));

  expect(waiting.toSorted()).toEqual(Object.keys(allowed).toSorted());
});

function waits(line: string): boolean {
  return wait.test(line) && !/^\s*(?:\/\/|\*)/.test(line);
}
