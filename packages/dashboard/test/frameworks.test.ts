/** The same dashboard in every framework: page, files, data, actions and live updates, below any path. */
import { createServer } from "node:http";
import express from "express";
import fastify from "fastify";
import middie from "@fastify/middie";
import { Hono } from "hono";
import { onTestFinished, describe, expect, test } from "vitest";
import type { Dashboard } from "#dashboard/index.js";
import { open } from "./support/request.ts";
import { fakeStint, jobId } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

type Mounted = { readonly dashboard: Dashboard; readonly stint: ReturnType<typeof fakeStint> };

function make(basePath?: string): Mounted {
  const stint = fakeStint();
  return {
    stint,
    dashboard: open(
      { role: "admin", user: "ada" },
      { stint, ...(basePath === undefined ? {} : { basePath }) },
    ),
  };
}

/** A server with Request and Response, as in Hono, Next and Nitro. */
async function listenFetch(handler: (request: Request) => Response | Promise<Response>): Promise<number> {
  const { respondNode, toRequest } = await import("#dashboard/node.js");
  return await listen((req, res) => void respondNode(res, async () => await handler(toRequest(req))));
}

const mounts: { name: string; base: string; mount: () => Promise<Mounted & { port: number }> }[] = [
  {
    name: "node:http at the root",
    base: "",
    async mount() {
      const made = make();
      return { ...made, port: await listen((req, res) => made.dashboard.node(req, res)) };
    },
  },
  {
    name: "node:http below a path",
    base: "/ops/jobs",
    async mount() {
      const made = make("/ops/jobs");
      const server = createServer((req, res) =>
        made.dashboard.node(req, res, () => {
          res.statusCode = 418;
          res.end("the app's own");
        }),
      );
      return { ...made, port: await listen(server) };
    },
  },
  {
    name: "express",
    base: "/ops/jobs",
    async mount() {
      const made = make();
      const app = express();
      app.use("/ops/jobs", made.dashboard.node);
      app.use((_req, res) => void res.status(418).send("the app's own"));
      return { ...made, port: await listen(app) };
    },
  },
  {
    name: "express behind express.json(), which is how Nest mounts it",
    base: "/admin",
    async mount() {
      const made = make();
      const app = express();
      app.use(express.json());
      const router = express.Router();
      router.use(made.dashboard.node);
      app.use("/admin", router);
      return { ...made, port: await listen(app) };
    },
  },
  {
    name: "express at the root",
    base: "",
    async mount() {
      const made = make();
      const app = express();
      app.use(made.dashboard.node);
      return { ...made, port: await listen(app) };
    },
  },
  {
    name: "fastify with middie",
    base: "/ops/jobs",
    async mount() {
      const made = make();
      const app = fastify();
      await app.register(middie);
      app.use("/ops/jobs", made.dashboard.node);
      await app.ready();
      onTestFinished(async () => await app.close());
      return { ...made, port: await listen(app.server) };
    },
  },
  {
    name: "hono, the whole path",
    base: "/ops/jobs",
    async mount() {
      const made = make("/ops/jobs");
      const app = new Hono();
      app.all("/ops/jobs/*", (context) => made.dashboard.fetch(context.req.raw));
      return { ...made, port: await listenFetch((request) => app.fetch(request)) };
    },
  },
  {
    name: "hono.mount, which strips the path",
    base: "/ops/jobs",
    async mount() {
      const made = make("/ops/jobs");
      const app = new Hono();
      app.mount("/ops/jobs", made.dashboard.fetch);
      return { ...made, port: await listenFetch((request) => app.fetch(request)) };
    },
  },
  {
    name: "a route handler as Next has it",
    base: "/ops/jobs",
    async mount() {
      const made = make("/ops/jobs");
      const GET = (request: Request): Promise<Response> => made.dashboard.fetch(request);
      const POST = GET;
      return {
        ...made,
        port: await listenFetch((request) => (request.method === "POST" ? POST(request) : GET(request))),
      };
    },
  },
];

describe.each(mounts)("$name", ({ base, mount }) => {
  test("the page knows its mount, also when opened on a deep link", async () => {
    const { port } = await mount();
    for (const path of ["/", "/queues", `/jobs/${jobId}`, "/jobs?state=dead"]) {
      const page = await raw(port, `${base}${path}`, {
        headers: { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" },
      });
      expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
      expect(resolved(page.text, `${base}${path}`)).toBe(`${base}/`);
    }
  });

  test("data, actions and their actor", async () => {
    const { port, stint } = await mount();
    const health = await raw(port, `${base}/api/health`);
    expect([health.status, JSON.parse(health.text)]).toMatchObject([200, { queues: [] }]);

    const body = JSON.stringify({ reason: "fixed — ✓" });
    const headers = { "content-type": "application/json", "x-stint": "1" };
    const replayed = await raw(port, `${base}/api/jobs/${jobId}/replay`, { method: "POST", headers, body });
    expect([replayed.status, replayed.text]).toEqual([200, "{}"]);
    expect(stint.calls.at(-1)).toEqual({
      name: "replay",
      args: [jobId, { actor: "ada", reason: "fixed — ✓" }],
    });
  });

  test("an unknown path is a plain 404", async () => {
    const { port } = await mount();
    for (const path of ["/api/nope", "/assets/nope.js"])
      expect((await raw(port, `${base}${path}`)).status).toBe(404);
  });

  test("opened without the trailing slash, the page still finds its files", async () => {
    const { port } = await mount();
    const path = base === "" ? "/" : base;
    const page = await raw(port, `${path}?x=1`);
    // Not redirected to the slash: Next redirects back from it, and the browser would loop.
    expect([page.status, resolved(page.text, path)]).toEqual([200, `${base}/`]);
  });

  test("live updates come while the connection is open", async () => {
    const { port, stint } = await mount();
    const stop = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}${base}/api/events`, { signal: stop.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("event: health")) text += (await reader.read()).value ?? "";

    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(text).toContain('data: {"at":"2026-01-01T00:00:00.000Z","queues":[]');
    expect(stint.calls.filter(({ name }) => name === "health").length).toBe(1);
    stop.abort();
    await reader.read().catch(() => undefined);
  });
});

test("authorize gets the session that the app's middleware put on req", async () => {
  const stint = fakeStint();
  const dashboard = open(null, {
    stint,
    authorize: (_request, { req }) => {
      const { user } = (req ?? {}) as { user?: string };
      return user === undefined ? null : { user, role: "operate" };
    },
  });
  const app = express();
  app.use((req, _res, next) => {
    if (req.headers.cookie === "session=1") Object.assign(req, { user: "ada" });
    next();
  });
  app.use("/ops", dashboard.node);
  const port = await listen(app);

  expect((await raw(port, "/ops/api/me")).status).toBe(401);
  const me = await raw(port, "/ops/api/me", { headers: { cookie: "session=1" } });
  expect(JSON.parse(me.text)).toMatchObject({ user: "ada" });
});

test.each([
  express.raw({ type: "*/*" }),
  express.text({ type: "*/*" }),
  express.json(),
  express.urlencoded(),
])("a body parser before the dashboard does no harm (%#)", async (parser) => {
  const stint = fakeStint();
  const dashboard = open({ role: "operate", user: "ada" }, { stint });
  const port = await listen(express().use(parser).use(dashboard.node));
  const headers = { "content-type": "application/json", "x-stint": "1" };
  const body = JSON.stringify({ reason: "fixed" });
  const response = await raw(port, `/api/jobs/${jobId}/replay`, { method: "POST", headers, body });

  expect([response.status, stint.calls.at(-1)?.args[1]]).toEqual([200, { actor: "ada", reason: "fixed" }]);
});

test.each(["node:http below a path", "express"])(
  "%s: a path outside the mount reaches the app",
  async (name) => {
    const { port } = await mounts.find((one) => one.name === name)!.mount();
    for (const path of ["/", "/other", "/ops/jobsite"])
      expect(await raw(port, path)).toMatchObject({ status: 418, text: "the app's own" });
  },
);

/** The base of the page's links, as a browser resolves it. */
function resolved(html: string, path: string): string {
  const href = /<base href="([^"]*)"/.exec(html)?.[1];
  if (href === undefined) throw new Error(`There is no <base href> in ${html}`);
  return new URL(href, `http://127.0.0.1${path}`).pathname;
}
