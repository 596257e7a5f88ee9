/** Somebody who has the dashboard open, and a scraper beside it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "../context.ts";

let watching = new AbortController();
let answers = 0;

/** Serve the dashboard from this process; ask it what an open page asks, and for its metrics, again and again until `unwatch`. */
export async function watch({ stores }: Context, { everyMs }: { everyMs: number }): Promise<void> {
  const { createStint, silentLogger } = await import("stint");
  const { createDashboard } = await import("@stint/dashboard");
  const stint = createStint({ database: stores.postgres, logger: silentLogger });
  const dashboard = createDashboard({ stint });
  const server = createServer((request, response) => dashboard.node(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  watching = new AbortController();
  const { signal } = watching;
  void follow(`${base}/api/events`, signal);
  void ask([`${base}/api/health`, `${base}/api/workers`, `${base}/metrics`], everyMs, signal);
}

/** How many questions were answered, so that a watcher that saw nothing is noticed. */
export async function unwatch(): Promise<{ answers: number }> {
  watching.abort();
  return { answers };
}

async function follow(url: string, signal: AbortSignal): Promise<void> {
  const { body } = await fetch(url);
  for await (const _ of body ?? []) if (signal.aborted) return;
}

async function ask(urls: readonly string[], everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const got = await Promise.all(urls.map(async (url) => await (await fetch(url)).arrayBuffer()));
    answers += got.length;
    await sleep(everyMs);
  }
}
