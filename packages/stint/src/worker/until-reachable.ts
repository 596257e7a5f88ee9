import { isTransient } from "../db/transient.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";

/** Repeat an idempotent call of a handler while the database is unavailable, until the attempt is asked to stop. An outage is no failure of the job. */
export async function untilReachable<T>(
  work: () => Promise<T>,
  aborted: () => Error | undefined,
): Promise<T> {
  const retryDelay = new RetryDelay();
  for (;;) {
    const reason = aborted();
    if (reason !== undefined) throw reason;
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error)) throw error;
      await sleep(retryDelay.next());
    }
  }
}
