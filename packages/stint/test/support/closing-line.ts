import type { Reporter, TestModule } from "vitest/node";

/** Ends the run with one plain line, `N passed, N failed`, that scripts can read. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      for (const test of tests) count[test.result().state] += 1;
      // A file that could not be loaded has no tests to count, and must not look like a pass.
      if (!module.ok() && tests.every((test) => test.ok())) count.failed += 1;
    }
    // A test that never came to an end did not pass.
    const failed = count.failed + count.pending;

    const line = `${count.passed} passed, ${failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ""}`;
    // The default reporter prints its summary in the same hook, before this one; exit is after both.
    process.once("exit", () => process.stdout.write(`${line}\n`));
  }
}
