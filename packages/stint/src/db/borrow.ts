import type { Pool, PoolClient } from "pg";

/**
 * Borrow a connection from the application's pool. The pool may be busy for long. It may even deadlock: a caller that holds the last
 * connection and enqueues outside its transaction waits for itself. The deadline ends both.
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
  // A connection that arrives after the deadline is returned unused.
  connecting.then((client) => late && client.release()).catch(() => undefined);
  try {
    return guarded(await Promise.race([connecting, deadline]));
  } finally {
    clearTimeout(timer);
  }
}

/** A borrowed client has no other error listener, and a lost connection without a listener ends the process. */
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
