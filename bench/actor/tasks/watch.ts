/** An open dashboard page and a metrics scraper. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "../context.ts";

let watching = new AbortController();
let responses = 0;

/** Serve the dashboard from this process, and send the requests of an open page and a scraper until `unwatch`. */
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
  void request([`${base}/api/health`, `${base}/api/workers`, `${base}/metrics`], everyMs, signal);
}

/** The number of successful requests, so that a watcher without any is noticed. */
export async function unwatch(): Promise<{ responses: number }> {
  watching.abort();
  return { responses };
}

async function follow(url: string, signal: AbortSignal): Promise<void> {
  const { body } = await fetch(url);
  for await (const _ of body ?? []) if (signal.aborted) return;
}

async function request(urls: readonly string[], everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const got = await Promise.all(urls.map(async (url) => await (await fetch(url)).arrayBuffer()));
    responses += got.length;
    await sleep(everyMs);
  }
}
