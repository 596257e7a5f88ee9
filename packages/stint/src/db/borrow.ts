import type { Pool, PoolClient } from "pg";

/**
 * A connection of the application's own pool. It may be busy for long, or wait without end for itself: a caller that holds the last
 * connection and enqueues without its transaction.
 */
export async function borrow(pool: Pool, deadlineMs: number): Promise<PoolClient> {
  const connecting = pool.connect();
  let timer: NodeJS.Timeout | undefined;
  let late = false;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      late = true;
      reject(new Error(`the pool had no free connection within ${deadlineMs} ms`));
    }, deadlineMs);
  });
  // One that comes too late goes back unused.
  connecting.then((client) => late && client.release()).catch(() => undefined);
  try {
    return guarded(await Promise.race([connecting, deadline]));
  } finally {
    clearTimeout(timer);
  }
}

/** While it is borrowed nothing else listens, and a lost connection without a listener would end the process. */
function guarded(client: PoolClient): PoolClient {
  const ignore = (): void => undefined;
  const release = client.release.bind(client);
  client.on("error", ignore);
  client.release = (destroy) => {
    client.removeListener("error", ignore);
    client.release = release;
    release(destroy);
  };
  return client;
}
