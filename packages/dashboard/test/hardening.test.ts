/** Attacks that once worked: through a proxy without forwarding headers, by an early disconnect, and by rights that are not booleans. */
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { silentLogger } from "stint";
import { createDashboard, serveDashboard, type Access } from "#dashboard/index.js";
import { respondNode } from "#dashboard/node.js";
import { gate } from "../../stint/test/support/gate.ts";
import { until } from "../../stint/test/support/until.ts";
import { request, open } from "./support/request.ts";
import { emptyHealth, fakeStint, jobId } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

/** Sends raw bytes, and returns everything received until the server closes the connection. */
async function send(port: number, text: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    let got = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("data", (part) => (got += part.toString("latin1")));
    socket.on("error", reject);
    socket.on("close", () => resolve(got));
  });
}

describe("without authorize, proxied requests are refused", () => {
  const local = async (): Promise<number> => {
    const dashboard = createDashboard({ stint: fakeStint(), logger: silentLogger });
    return await listen((req, res) => dashboard.node(req, res));
  };

  test("of nginx by default: HTTP/1.0, the upstream's host and no forwarding header", async () => {
    const port = await local();
    const request = (version: string): string =>
      `GET /api/me HTTP/${version}\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nsec-fetch-site: same-origin\r\n\r\n`;
    expect(await send(port, request("1.0"))).toMatch(/^HTTP\/1.1 403 [^]*LOCAL_ONLY/);
    expect(await send(port, request("1.1"))).toMatch(/^HTTP\/1.1 200 /);
  });

  test.each([
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-client-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "cdn-loop",
  ])("one that sends %s", async (name) => {
    const headers = { host: "localhost", [name]: "1" };
    expect((await raw(await local(), "/api/me", { headers })).status).toBe(403);
  });
});

test.each(["false", "no", 1, {}, null])("the right to payloads is not given by %j", async (payloads) => {
  for (const role of ["view", "admin"] as const) {
    const dashboard = open({ role, payloads } as unknown as Access);
    expect((await request(dashboard, `/api/jobs/${jobId}`)).text).not.toContain("of the payload");
    expect((await request(dashboard, "/api/me")).body).toMatchObject({ can: { payloads: false } });
  }
});

test("a listener that leaves before it is accepted takes no place", async () => {
  const asked = gate();
  const gone = gate();
  const letIn = gate();
  let first = true;
  const dashboard = open(null, {
    limits: { streams: 1 },
    stint: fakeStint({
      // The query for listeners runs, so the first listener has its stream.
      health: () => {
        letIn.open();
        return emptyHealth;
      },
    }),
    authorize: async () => {
      if (first) {
        first = false;
        asked.open();
        await gone.opened;
      }
      return { role: "view" };
    },
  });
  const port = await listen((req, res) => {
    res.once("close", gone.open);
    dashboard.node(req, res);
  });
  const socket = connect(port, "127.0.0.1", () =>
    socket.write("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"),
  );
  await asked.opened;
  socket.destroy();
  await letIn.opened;

  const another = await until(
    async () => {
      const stop = new AbortController();
      const { status } = await fetch(`http://127.0.0.1:${port}/api/events`, { signal: stop.signal });
      stop.abort();
      return status === 200 ? status : undefined;
    },
    { message: "there is a place for another" },
  );
  expect(another).toBe(200);
});

test("a client that sends half a header is disconnected", async () => {
  const dashboard = open({ role: "view" });
  const server = await serveDashboard(dashboard, { port: 0 });
  onTestFinished(async () => await server.close());
  // Resolves when the server closes the connection.
  expect(await send(server.port, "GET / HTTP/1.1\r\nHost: lo")).toMatch(/^HTTP\/1\.1 408 |^$/);
});

test.each(["constructor", "__proto__", "toString"])(
  "an error with the code %s is handled like any other",
  async (code) => {
    const stint = fakeStint({ stats: Object.assign(new Error("of the inside"), { code }) });
    const response = await request(open({ role: "view" }, { stint }), "/api/stats");
    expect([response.status, response.body]).toMatchObject([500, { error: { code: "INTERNAL" } }]);
    expect(response.text).not.toContain("of the inside");
  },
);

test("a client that does not read its response is disconnected", async () => {
  const cancelled = gate();
  const part = new Uint8Array(1_000_000);
  const port = await listen((_, res) => {
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(part),
      cancel: () => cancelled.open(),
    });
    void respondNode(res, async () => new Response(body), 100);
  });
  const socket = connect(port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  socket.pause().on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await expect(cancelled.opened).resolves.toBeUndefined();
});
