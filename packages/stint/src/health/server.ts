import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import { metricsContentType } from "../telemetry/prometheus.ts";
import { renderProcessMetrics } from "../telemetry/process-metrics.ts";
import type { Worker } from "../worker/worker.ts";
import { Checks } from "./checks.ts";
import { isLocalName, isLoopback } from "./host.ts";

export type HealthOptions = {
  /** 0: any free port. */
  port: number;
  /** The address to listen on. Default "127.0.0.1"; use "0.0.0.0" if probes come from another machine. */
  host?: string;
  /** Host names with a dot that are accepted on the loopback address, for instance behind a proxy. On other addresses any name is. */
  hosts?: readonly string[];
};

export type HealthServer = {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
};

/** What the health server serves. Each check returns "ok", or the reason why not. */
export type Probes = {
  live(): string | Promise<string>;
  ready(): string | Promise<string>;
  started(): string | Promise<string>;
  /** In the Prometheus text format. */
  metrics(): string | Promise<string>;
};

type ProbeResponse = { readonly status: number; readonly type: string; readonly body: string };

/**
 * Serve /livez, /readyz, /startupz and /metrics for the workers of this process. It shows nothing about jobs and does not keep the
 * process alive.
 *
 * @throws {InvalidOptionError} An option cannot work.
 */
export async function serveHealth(
  workers: Worker | readonly Worker[],
  options: HealthOptions,
): Promise<HealthServer> {
  return await serveProbes(probesOf(isList(workers) ? workers : [workers]), options);
}

export function probesOf(workers: readonly Worker[]): Probes {
  const checks = new Checks(workers);
  return {
    live: () => checks.live(),
    ready: async () => await checks.ready(),
    started: () => checks.started(),
    metrics: () => renderProcessMetrics(workers),
  };
}

/** The same for checks of any origin. */
export async function serveProbes(probes: Probes, options: HealthOptions): Promise<HealthServer> {
  refuseUnknownKeys("serveHealth", options, ["port", "host", "hosts"]);
  const port = requireInteger("serveHealth.port", options.port, { min: 0, max: 65_535 });
  const host = checkText(options.host ?? "127.0.0.1", "serveHealth.host");
  const hosts = checkHosts(options.hosts ?? []);
  const isCalled = (name: string | undefined): boolean => !isLoopback(host) || isLocalName(name, hosts);
  const server = makeServer(routesOf(probes), isCalled);
  await listen(server, port, host);
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    port: bound,
    close: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

function checkHosts(hosts: readonly string[]): string[] {
  if (!Array.isArray(hosts))
    throw new InvalidOptionError("serveHealth.hosts", `must be a list of names, got ${describe(hosts)}`);
  return hosts.map((name) => checkText(name, "serveHealth.hosts").toLowerCase());
}

type Routes = ReadonlyMap<string, () => Promise<ProbeResponse>>;

function routesOf(probes: Probes): Routes {
  return new Map<string, () => Promise<ProbeResponse>>([
    ["/livez", async () => responseOf(await probes.live())],
    ["/readyz", async () => responseOf(await probes.ready())],
    ["/startupz", async () => responseOf(await probes.started())],
    ["/metrics", async () => ({ status: 200, type: metricsContentType, body: await probes.metrics() })],
  ]);
}

function responseOf(health: string): ProbeResponse {
  const ok = health === "ok";
  const body = `${JSON.stringify(ok ? { status: "ok" } : { status: "unavailable", reason: health })}\n`;
  return { status: ok ? 200 : 503, type: "application/json", body };
}

function plain(status: number, body: string): ProbeResponse {
  return { status, type: "text/plain; charset=utf-8", body: `${body}\n` };
}

/** Whether the server responds to this Host header. */
type IsCalled = (name: string | undefined) => boolean;

function makeServer(routes: Routes, isCalled: IsCalled): Server {
  // Probes are small and quick; larger or slower requests are not probes.
  const limits = {
    maxHeaderSize: 8_192,
    headersTimeout: 5_000,
    requestTimeout: 5_000,
    keepAliveTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
  };
  const server = createServer(limits, (request, response) => {
    void respond(routes, isCalled, request).then(({ status, type, body }) => {
      response.writeHead(status, {
        "content-type": type,
        "content-length": Buffer.byteLength(body),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        // A body may follow, which is not read.
        ...(status >= 400 && status < 500 ? { connection: "close" } : {}),
      });
      response.end(request.method === "HEAD" ? undefined : body);
    });
  });
  makeRoom(server);
  server.maxRequestsPerSocket = 1_000;
  server.unref();
  return server;
}

const mostConnections = 64;

/**
 * Beyond the limit, the oldest connection is closed. Refusing the newest would let idle connections keep the probes out, and a worker that
 * does not respond to its probes is killed.
 */
function makeRoom(server: Server): void {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    const [oldest] = open;
    if (open.size > mostConnections && oldest !== undefined) {
      open.delete(oldest);
      oldest.destroy();
    }
  });
}

async function respond(
  routes: Routes,
  isCalled: IsCalled,
  { method, url, headers }: IncomingMessage,
): Promise<ProbeResponse> {
  if (!isCalled(headers.host))
    return plain(421, "Unknown host name. Use the address of this server, or add the name to `hosts`.");
  const route = routes.get((url ?? "").split("?")[0] ?? "");
  if (route === undefined)
    return plain(404, "Not found. Available: /livez, /readyz, /startupz and /metrics.");
  if (method !== "GET" && method !== "HEAD") return plain(405, "Method not allowed. Use GET.");
  if ((headers["content-length"] ?? "0") !== "0" || headers["transfer-encoding"] !== undefined)
    return plain(413, "Send the request without a body.");
  try {
    return await route();
  } catch {
    return plain(500, "Internal error.");
  }
}

async function listen(server: Server, port: number, host: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      // Without a listener, an error of the server would end the process.
      server.on("error", () => undefined);
      resolve();
    });
  });
}

function isList(workers: Worker | readonly Worker[]): workers is readonly Worker[] {
  return Array.isArray(workers);
}
