import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defineJob, handle, serveHealth, typed, type HealthServer } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const note = defineJob("note", { payload: typed<object>() });
const options = { pools: { default: 2 }, signals: false, handlers: [handle(note, () => undefined)] };

type Worker = Parameters<typeof serveHealth>[0];

async function serving(worker: Worker): Promise<HealthServer> {
  const server = await serveHealth(worker, { port: 0 });
  onTestFinished(async () => await server.close());
  return server;
}

async function probe({ url }: HealthServer, path: string): Promise<{ status: number; reason?: string }> {
  const response = await fetch(`${url}${path}`);
  const body = (await response.json()) as { status: string; reason?: string };
  expect(body.status).toBe(response.ok ? "ok" : "unavailable");
  return { status: response.status, ...(body.reason === undefined ? {} : { reason: body.reason }) };
}

test("a new worker is live only; a started worker is live, started and ready", async () => {
  const fresh = await freshSchema();
  const worker = fresh.client().worker(options);
  const server = await serving(worker);

  expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
  expect(await probe(server, "/livez")).toEqual({ status: 200 });
  expect(await probe(server, "/startupz")).toEqual({ status: 503, reason: "not started" });
  expect(await probe(server, "/readyz")).toEqual({ status: 503, reason: "not started" });
  await worker.start();
  await until(async () => (await probe(server, "/startupz")).status === 200);
  expect(await probe(server, "/readyz")).toEqual({ status: 200 });
  await worker.stop();
  expect(await probe(server, "/livez")).toEqual({ status: 200 });
  expect(await probe(server, "/readyz")).toEqual({ status: 503, reason: "draining" });
});

test("a draining worker is live and not ready", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const held = gate();
  const { worker, seen } = await startWorker(stint, { handlers: [handle(note, () => held.opened)] });
  const server = await serving(worker);
  await stint.enqueue(note, {});
  await seen("began");
  expect(await probe(server, "/readyz")).toEqual({ status: 200 });

  const stopped = worker.stop({ drain: "20s" });
  expect(await probe(server, "/livez")).toEqual({ status: 200 });
  expect(await probe(server, "/readyz")).toEqual({ status: 503, reason: "draining" });
  expect(await metric(server, "stint_worker_draining")).toBe("1");
  expect(await metric(server, 'stint_worker_slots{pool="default",state="busy"}')).toBe("1");
  held.open();
  expect(await stopped).toMatchObject({ drained: 1 });
});

test("a schema of another version makes the worker not ready", async () => {
  const fresh = await freshSchema();
  const { worker } = await startWorker(fresh.client(), options);
  const server = await serving(worker);
  expect(await probe(server, "/readyz")).toEqual({ status: 200 });

  await fresh.sql("update stint.migration set oldest_code = 1000");
  await until(async () => (await probe(server, "/readyz")).reason === "schema");
  expect(await probe(server, "/livez")).toEqual({ status: 200 });
});

describe("without a database", () => {
  let postgres: OwnServer;
  let fresh: Fresh;
  beforeAll(async () => {
    postgres = await ownServer();
  });
  afterAll(async () => {
    await postgres.remove();
  });

  test("that stopped: live, not ready, and ready again once it is back", async () => {
    fresh = await freshSchema(postgres.url);
    const { worker } = await startWorker(fresh.client(), options);
    const server = await serving(worker);
    expect(await probe(server, "/readyz")).toEqual({ status: 200 });

    await postgres.stop("immediate");
    await until(async () => (await probe(server, "/readyz")).reason === "database");
    expect(await probe(server, "/livez")).toEqual({ status: 200 });
    await postgres.start();
    await until(async () => (await probe(server, "/readyz")).status === 200);
  });

  test("that is paused: live, and not ready within a probe's timeout", async () => {
    fresh = await freshSchema(postgres.url);
    const { worker } = await startWorker(fresh.client(), options);
    const server = await serving(worker);
    const admin = await adminClient(postgres.url);
    const paused = [postgres.pid()];
    // First the postmaster, which makes new processes; then all others, repeatedly, because one may just have been made.
    process.kill(postgres.pid(), "SIGSTOP");
    const pauseAll = async (): Promise<void> => {
      const { rows } = await admin.query<{ pid: number }>(
        "select pid from pg_stat_activity where application_name ~ '^stint' and pid <> all ($1) and pid <> pg_backend_pid()",
        [paused],
      );
      for (const { pid } of rows) process.kill(pid, "SIGSTOP");
      paused.push(...rows.map(({ pid }) => pid));
    };
    try {
      expect(await probe(server, "/livez")).toEqual({ status: 200 });
      await until(async () => {
        await pauseAll();
        return (await probe(server, "/readyz")).reason === "database";
      });
      expect(await probe(server, "/livez")).toEqual({ status: 200 });
    } finally {
      for (const pid of paused) process.kill(pid, "SIGCONT");
      await admin.end();
    }
    await until(async () => (await probe(server, "/readyz")).status === 200);
  });
});

test("/metrics reports the workers of this process and nothing of the database", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const one = await startWorker(stint, { pools: { default: 3 }, handlers: [handle(note, () => undefined)] });
  const two = await startWorker(stint, { pools: { default: 4 }, handlers: [handle(note, () => undefined)] });
  const server = await serving([one.worker, two.worker]);
  const response = await fetch(`${server.url}/metrics`);

  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const text = await response.text();
  expect(text).toContain('stint_worker_slots{pool="default",state="free"} 7\n');
  expect(text).not.toMatch(/^stint_jobs\{/m);
});

describe("requests that are not probes are refused", () => {
  async function server(): Promise<HealthServer> {
    return await serving((await freshSchema()).client().worker(options));
  }

  test.each([
    ["/", { method: "GET" }, 404],
    ["/livez/../../etc/passwd", { method: "GET" }, 404],
    ["/livez", { method: "POST" }, 405],
    ["/readyz", { method: "DELETE" }, 405],
  ] as const)("%s %o: %i", async (path, init, status) => {
    expect((await fetch(`${(await server()).url}${path}`, init)).status).toBe(status);
  });

  test("a web page whose domain points here (DNS rebinding)", async () => {
    const { port } = await server();
    const named = (host: string): Promise<number> => statusOf(port, host);

    expect(await named("evil.example")).toBe(421);
    expect(await named(`evil.example:${port}`)).toBe(421);
    expect(await named("127.0.0.1.evil.example")).toBe(421);
    for (const host of [
      "127.0.0.1",
      `10.0.0.7:${port}`,
      `[::1]:${port}`,
      "localhost",
      "worker",
      "LOCALHOST:80",
    ])
      expect([host, await named(host)]).toEqual([host, 200]);
  });

  test("listed names are accepted; other addresses accept every name", async () => {
    const worker = (await freshSchema()).client().worker(options);
    const named = await serveHealth(worker, { port: 0, hosts: ["Health.example"] });
    const open = await serveHealth(worker, { port: 0, host: "0.0.0.0" });
    onTestFinished(async () => {
      await named.close();
      await open.close();
    });

    expect(await statusOf(named.port, "health.example")).toBe(200);
    expect(await statusOf(named.port, "other.example")).toBe(421);
    expect(await statusOf(open.port, "jobs.shop.svc.cluster.local:8080")).toBe(200);
    expect(await statusOf(open.port, "worker-1.example")).toBe(200);
    await expect(serveHealth(worker, { port: 0, hosts: "a" as never })).rejects.toThrow(/serveHealth\.hosts/);
  });

  test.each([
    ["a body", `GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello`, "413"],
    ["headers without end", `GET /livez HTTP/1.1\r\nhost: x\r\nx: ${"x".repeat(9_000)}\r\n\r\n`, "431"],
    ["half a request", `GET /livez HTTP/1.1\r\nhost: x\r\n`, "408"],
  ])("%s", async (_what, request, status) => {
    const { port } = await server();
    const socket = connect(port, "127.0.0.1");
    let result = "";
    socket.setEncoding("utf8").on("data", (text: string) => (result += text));
    socket.write(request);
    await once(socket, "close");

    expect(result.split("\r\n")[0]).toContain(` ${status} `);
  });

  test("many idle connections do not keep probes out", async () => {
    const silent = await server();
    const sockets = Array.from({ length: 100 }, () => connect(silent.port, "127.0.0.1"));
    for (const socket of sockets) socket.on("error", () => undefined);
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    await Promise.all(sockets.map(async (socket) => await once(socket, "connect")));

    expect(await probe(silent, "/livez")).toEqual({ status: 200 });
    // The others had to go for it.
    await until(() => sockets.filter((socket) => socket.closed).length >= 36);
  });
});

/** A request with any Host header, which fetch does not allow to set. */
async function statusOf(port: number, host: string): Promise<number> {
  const request = get({ host: "127.0.0.1", port, path: "/livez", headers: { host }, agent: false });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  return response.statusCode ?? 0;
}

async function metric({ url }: HealthServer, series: string): Promise<string | undefined> {
  const lines = (await (await fetch(`${url}/metrics`)).text()).split("\n");
  return lines.find((line) => line.startsWith(`${series} `))?.slice(series.length + 1);
}
