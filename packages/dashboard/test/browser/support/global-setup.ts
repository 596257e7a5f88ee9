import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserServer } from "playwright-core";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  export interface ProvidedContext {
    browserUrl: string;
  }
}

/**
 * One browser for the whole run, started when the first test needs it: each start takes seconds of CPU time, and most runs of
 * single files need none.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  let browser: Promise<BrowserServer> | undefined;
  const server = createServer(({ url }, response) => {
    if (url === "/blank") {
      response.setHeader("content-type", "text/html").end("<!doctype html><title>blank</title>");
      return;
    }
    browser ??= import("./start-browser.ts").then(async ({ startBrowser }) => await startBrowser());
    browser.then(
      (started) => response.end(started.wsEndpoint()),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  project.provide("browserUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  return async () => {
    server.closeAllConnections();
    server.close();
    await (await browser?.catch(() => undefined))?.close();
  };
}
