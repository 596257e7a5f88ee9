import type { Context } from "./context.ts";
import { exitCodes, reportError } from "./report-error.ts";

/** Runs the work of a child process, prints its error, and closes its connections. Returns the exit code. */
export async function exitCodeOf(context: Context, work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return exitCodes.ok;
  } catch (caught) {
    const { error, hints } = await context.explain(caught);
    return reportError(error, { out: context.out, verbose: context.verbose, hints });
  } finally {
    // A lost connection must not hide the first error behind that of closing.
    await context.close().catch(() => undefined);
  }
}
