/** How the server behaves on the wire: local only by default, hostile requests, live updates, files, redaction. */
import { createServer } from "node:http";
import { brotliCompressSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { silentLogger } from "stint";
import { createDashboard, serveDashboard } from "#dashboard/index.js";
import { Assets } from "#dashboard/assets.js";
import { Events } from "#dashboard/events.js";
import { baseHref, mountedPlace, placeOf } from "#dashboard/place.js";
import { Rate } from "#dashboard/rate.js";
import { makeRedactor } from "#dashboard/redact.js";
import { until } from "../../stint/test/support/until.ts";
import { ask, open, post } from "./support/ask.ts";
import { emptyHealth, fakeDetail, fakeStint, jobId } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

describe("without authorize", () => {
  async function local(address?: string): Promise<number> {
    const dashboard = createDashboard({ stint: fakeStint(), logger: silentLogger });
    return await listen((req, res) => {
      if (address !== undefined) Object.defineProperty(req.socket, "remoteAddress", { value: address });
      dashboard.node(req, res);
    });
  }

  test.each([
    ["localhost", 200],
    ["localhost:4000", 200],
    ["127.0.0.1:4000", 200],
    ["[::1]:4000", 200],
    ["stint.localhost", 200],
    ["evil.example", 403],
    ["localhost.evil.example", 403],
    ["127.0.0.1.evil.example", 403],
    ["10.0.0.1", 403],
    ["0.0.0.0:4000", 403],
    ["evil.example/..", 400],
    ["user@localhost", 400],
  ])("this machine asking for %j gets %i", async (host, status) => {
    expect((await raw(await local(), "/api/health", { headers: { host } })).status).toBe(status);
  });

  test.each(["10.0.0.9", "::ffff:192.168.1.4", "2001:db8::1", "1127.0.0.1", undefined])(
    "the address %s gets nothing",
    async (address) => {
      const port = await local(address ?? "");
      for (const path of ["/", "/api/health", "/metrics", "/assets/x.js"]) {
        const answer = await raw(port, path, { headers: { host: "localhost" } });
        expect([answer.status, JSON.parse(answer.text)]).toMatchObject([
          403,
          { error: { code: "LOCAL_ONLY" } },
        ]);
      }
    },
  );

  test.each(["::1", "::ffff:127.0.0.1", "127.8.8.8"])("the address %s is this machine", async (address) => {
    expect((await raw(await local(address), "/api/health", { headers: { host: "localhost" } })).status).toBe(
      200,
    );
  });

  test.each(["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"])(
    "whom a proxy that sends %s speaks for is not known",
    async (name) => {
      const headers = { host: "localhost", [name]: "127.0.0.1" };
      expect((await raw(await local(), "/api/health", { headers })).status).toBe(403);
    },
  );
});

describe("hostile requests", () => {
  const paths = [
    "//evil.example/",
    "//evil.example",
    "/\\evil.example/",
    "http://evil.example/",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/assets/../../../package.json",
    "/assets/..%2f..%2fpackage.json",
    "/assets/__proto__",
    "/assets/constructor",
    "/assets//etc/passwd",
    "/api/../api/health",
    "/api/constructor",
    "/api/jobs/__proto__",
    `/api/jobs/${jobId}%00`,
    "/api/jobs/%",
    "/api/jobs/%c0%ae",
    "/api/jobs/<script>alert(1)</script>",
    "/api//health",
    "/api/",
    "/%0d%0aset-cookie:%20x=1",
    '/"><script>alert(1)</script>',
    "/jobs?__proto__[x]=1",
    `/${"a/".repeat(2_000)}`,
  ];

  test.each(paths)("%s does no harm", async (path) => {
    const stint = fakeStint();
    const dashboard = open({ role: "admin" }, { stint });
    const port = await listen((req, res) => dashboard.node(req, res));
    const answer = await raw(port, path);

    expect(answer.status).toBeLessThan(500);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(answer.headers.location ?? "").not.toContain("evil");
    expect(answer.text).not.toContain("<script>alert");
    expect(answer.text).not.toContain("root:");
    expect(answer.text).not.toContain("devDependencies");
    expect(answer.text).not.toMatch(/evil\.example|    at /);
  });

  test("the mount's own path is escaped in the page, and no redirect leaves the host", async () => {
    const dashboard = open();
    const mounted = await listen((req, res) => {
      // As a framework with a wildcard mount would leave it.
      const originalUrl = req.url ?? "/";
      dashboard.node(Object.assign(req, { originalUrl, url: "/" }), res);
    });
    const page = await raw(mounted, '/"onload="alert(1)/');
    expect(page.text).not.toContain('"onload="');
    for (const path of ["//evil.example", "/\\evil.example"]) {
      const answer = await raw(mounted, path);
      expect([answer.status, answer.headers.location]).toEqual([400, undefined]);
    }
  });

  const hostile = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    "'; drop table stint.job; --",
    "\u202Egnp.exe",
    "%00%0d%0a",
    "{{7*7}}",
    "__proto__",
  ];
  const unreadable = ["\0", "a\0b", "line\nbreak", "\u001B[2J", "\u0085", "x".repeat(513)];

  test.each(hostile)("%j goes to the database as a value and comes back as data", async (text) => {
    const stint = fakeStint({
      jobs: { jobs: [{ id: jobId, key: text, error: null }], next: null, partial: false },
    });
    const dashboard = open({ role: "admin" }, { stint });
    for (const name of ["kind", "queue", "tenant", "key", "tag", "error"]) {
      const answer = await ask(dashboard, `/api/jobs?${new URLSearchParams({ [name]: text }).toString()}`);
      expect([answer.status, answer.body]).toMatchObject([200, { jobs: [{ key: text }] }]);
      expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(stint.calls.at(-1)?.args[0]).toMatchObject({ [name]: text });
    }
  });

  test.each(unreadable)("%j is refused wherever text is taken", async (text) => {
    const stint = fakeStint();
    const dashboard = open({ role: "admin" }, { stint });
    const query = (name: string): string => new URLSearchParams({ [name]: text }).toString();
    const asked = [
      ...["kind", "queue", "tenant", "key", "tag", "error", "after", "since", "until", "limit", "state"].map(
        (name) => ask(dashboard, `/api/jobs?${query(name)}`),
      ),
      ...["queue", "kind", "range"].map((name) => ask(dashboard, `/api/series?${query(name)}`)),
      post(dashboard, `/api/jobs/${jobId}/cancel`, { reason: text }),
      post(dashboard, `/api/jobs/${jobId}/replay`, { reason: text }),
      post(dashboard, "/api/operations", { action: "replay", filter: { key: text }, reason: "x" }),
      post(dashboard, "/api/operations", { action: "replay", filter: { state: "dead" }, reason: text }),
    ];
    for (const answer of await Promise.all(asked)) expect(answer.status).toBe(400);
    expect(stint.calls).toEqual([]);
  });

  test.each([
    ["/api/jobs/x/cancel", {}],
    [`/api/jobs/${jobId}/cancel`, { reasn: "misspelt" }],
    [`/api/jobs/${jobId}/cancel`, []],
    [`/api/jobs/${jobId}/cancel`, "null"],
    [`/api/jobs/${jobId}/cancel`, "{"],
    [`/api/jobs/${jobId}/cancel`, { reason: { $gt: "" } }],
    [`/api/jobs/${jobId}/replay`, {}],
    [`/api/jobs/${jobId}/replay`, { reason: "" }],
    ["/api/operations", { action: "replay", filter: {}, reason: "x" }],
    ["/api/operations", { action: "replay", filter: { stat: "dead" }, reason: "x" }],
    ["/api/operations", { action: "replay", filter: { state: [] }, reason: "x" }],
    ["/api/operations", { action: "replay", filter: { state: ["dead", "gone"] }, reason: "x" }],
    ["/api/operations", { action: "delete", filter: { state: "dead" }, reason: "x" }],
    ["/api/operations", { action: "replay", filter: { state: "dead" } }],
    ["/api/operations", { action: "replay", filter: { since: 1 }, reason: "x" }],
    ["/api/operations/preview", { action: "replay" }],
    [`/api/operations/${jobId}/abort`, { force: true }],
  ])("POST %s with %j is refused before anything is done", async (path, body) => {
    const stint = fakeStint();
    expect((await post(open({ role: "admin" }, { stint }), path, body)).status).toBe(400);
    expect(stint.calls).toEqual([]);
  });

  test.each([
    "/api/jobs?stat=dead",
    "/api/jobs?state=dead&state=ready",
    "/api/health?x=1",
    "/api/jobs?limit=201",
    "/api/jobs/count?limit=1",
  ])("GET %s is refused: what is misspelt would mean everything", async (path) => {
    expect((await ask(open(), path)).status).toBe(400);
  });

  test("a body too large for its limit is refused with an answer, not with a cut connection", async () => {
    const dashboard = open();
    const port = await listen((req, res) => dashboard.node(req, res));
    const headers = { "content-type": "application/json", "x-stint": "1", "transfer-encoding": "chunked" };
    const body = JSON.stringify({ reason: "x".repeat(100_000) });
    expect((await raw(port, `/api/jobs/${jobId}/cancel`, { method: "POST", headers, body })).status).toBe(
      413,
    );
  });

  test("a name with control characters reaches the audit as one line", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "operate", user: `ada\r\nroot\0${"x".repeat(500)}` }, { stint });
    await post(dashboard, `/api/jobs/${jobId}/cancel`, {});

    const { actor } = stint.calls[0]!.args[1] as { actor: string };
    expect(actor).toHaveLength(200);
    expect(actor).toMatch(/^ada\uFFFD\uFFFDroot\uFFFDx+$/);
  });
});

describe("live updates", () => {
  async function readUntil(stream: ReadableStream<Uint8Array>, words: string): Promise<string> {
    const reader = stream.getReader();
    let text = "";
    while (!text.includes(words)) {
      const { done, value } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    reader.releaseLock();
    return text;
  }

  test("one look for all who listen, none when nobody does", async () => {
    let asked = 0;
    const events = new Events(
      async () => {
        asked += 1;
        return emptyHealth;
      },
      { streams: 10, streamsPerUser: 10 },
    );
    const streams = [1, 2, 3].map(() => events.open("ada")!);
    await Promise.all(streams.map(async (stream) => await readUntil(stream, "event: health")));
    expect([asked, events.listening]).toEqual([1, 3]);

    // The second look is one for all, too.
    await Promise.all(streams.map(async (stream) => await readUntil(stream, "event: health")));
    expect(asked).toBe(2);

    await Promise.all(streams.map(async (stream) => await stream.cancel()));
    expect(events.listening).toBe(0);
    const again = events.open("ada")!;
    await readUntil(again, "event: health");
    // Had the old timer gone on, it would have looked as well.
    expect(asked).toBe(3);
    events.close();
  });

  test("trouble is told, and the listener stays", async () => {
    let fails = true;
    const events = new Events(
      async () => {
        if (fails) throw Object.assign(new Error("10.0.0.7 is away"), { code: "ECONNREFUSED" });
        return emptyHealth;
      },
      { streams: 1, streamsPerUser: 1 },
    );
    const stream = events.open("ada")!;
    const text = await readUntil(stream, "event: problem");
    expect(text).toContain("DATABASE_UNAVAILABLE");
    expect(text).not.toContain("10.0.0.7");

    fails = false;
    await readUntil(stream, "event: health");
    events.close();
  });

  test("close ends every stream, and a listener that goes away leaves its place", async () => {
    const dashboard = open({ role: "view" }, { limits: { streams: 1 } });
    const port = await listen((req, res) => dashboard.node(req, res));
    const listenOnce = async (stop: AbortController): Promise<Response> =>
      await fetch(`http://127.0.0.1:${port}/api/events`, { signal: stop.signal });

    const first = new AbortController();
    expect((await listenOnce(first)).status).toBe(200);
    expect((await listenOnce(new AbortController())).status).toBe(429);
    first.abort();
    const second = await until(async () => {
      const response = await listenOnce(new AbortController());
      return response.status === 200 ? response : undefined;
    });
    const ended = second!.text();
    await dashboard.close();
    expect(await ended).toContain("retry: 3000");
    expect((await raw(port, "/api/health")).status).toBe(503);
  });

  test("screens that ask for the same at the same time share one answer", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "view" }, { stint });
    await Promise.all(Array.from({ length: 20 }, async () => await ask(dashboard, "/api/stats")));
    expect(stint.calls.filter(({ name }) => name === "stats")).toHaveLength(1);
  });

  test("a failure is not kept for the next one who asks", async () => {
    let fails = true;
    const stint = fakeStint({
      stats: () => {
        if (fails) throw Object.assign(new Error("gone"), { code: "ECONNRESET" });
        return { at: new Date() };
      },
    });
    const dashboard = open({ role: "view" }, { stint });
    expect((await ask(dashboard, "/api/stats")).status).toBe(503);
    fails = false;
    expect((await ask(dashboard, "/api/stats")).status).toBe(200);
  });
});

describe("files", () => {
  const body = "console.log('the UI')".repeat(50);
  const assets = new Assets(async () => ({
    files: {
      "assets/main-abc123.js": {
        type: "text/javascript; charset=utf-8",
        brotli: brotliCompressSync(body).toString("base64"),
      },
    },
    index: { html: '<!doctype html><base href="__BASE__"><script src="assets/main-abc123.js"></script>' },
  }));
  const request = (encoding?: string): Request =>
    new Request(
      "http://localhost/",
      encoding === undefined ? {} : { headers: { "accept-encoding": encoding } },
    );

  test.each([
    ["gzip, deflate, br", "br"],
    ["br;q=1.0, gzip", "br"],
    ["gzip", null],
    ["br;q=0", null],
    [undefined, null],
  ])("accept-encoding %s is answered with %s", async (accepted, encoding) => {
    const response = await assets.file("assets/main-abc123.js", request(accepted));
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("cache-control")).toContain("immutable");
    expect(response.headers.get("vary")).toBe("accept-encoding");
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(encoding === null ? bytes.toString() : bytes.equals(brotliCompressSync(body))).toBe(
      encoding === null ? body : true,
    );
  });

  test.each(["assets/nope.js", "assets/../x", "__proto__", "constructor", ""])(
    "%j is not there",
    async (name) => {
      await expect(assets.file(name, request())).rejects.toMatchObject({ status: 404 });
    },
  );

  test("where the UI is not built, the page says so", async () => {
    const missing = new Assets(async () => {
      throw Object.assign(new Error("Cannot find module"), { code: "ERR_MODULE_NOT_FOUND" });
    });
    expect(await (await missing.page("./")).text()).toContain("is not built");
  });
});

describe("where it is mounted", () => {
  test.each([
    { path: "/", base: undefined, href: "./" },
    { path: "/queues", base: undefined, href: "./" },
    { path: `/jobs/${jobId}`, base: undefined, href: "../" },
    { path: "/ops/jobs/", base: undefined, href: "./" },
    { path: "/ops/jobs/api/health", base: "/ops/jobs", href: "/ops/jobs/" },
    { path: "/ops/jobs/assets/x.js", base: "/ops/jobs", href: "/ops/jobs/" },
  ])("$path, not told", ({ path, base, href }) => {
    const place = placeOf(path, "");
    expect([place.base, baseHref(place)]).toEqual([base, href]);
  });

  test.each([
    ["/", "/ops", "/ops", ""],
    ["/", "/ops/", "/ops", "/"],
    ["/jobs", "/ops/jobs", "/ops", "/jobs"],
    ["/jobs/x", "/a/b/jobs/x", "/a/b", "/jobs/x"],
    ["/rewritten", "/something/else", undefined, "/rewritten"],
  ])("left as %s of %s", (path, original, base, inner) => {
    expect(mountedPlace(path, original)).toEqual({ base, inner });
  });
});

describe("redaction", () => {
  const value = {
    card: { number: "4111111111111111", holder: "Ada" },
    Password: "hunter22",
    items: [{ price: 3, token: "abcdef" }, { price: 4 }],
    deep: { er: { password: 12345 } },
  };
  test.each([
    [["payload.card.number"], { card: { number: "[redacted]", holder: "Ada" } }],
    [["payload.card"], { card: "[redacted]" }],
    [["*.password"], { Password: "[redacted]", deep: { er: { password: "[redacted]" } } }],
    [["payload.items.token"], { items: [{ price: 3, token: "[redacted]" }, { price: 4 }] }],
    [["payload.items.0.price"], { items: [{ price: "[redacted]", token: "abcdef" }, { price: 4 }] }],
    [
      ["payload.items.*.price"],
      { items: [{ price: "[redacted]", token: "abcdef" }, { price: "[redacted]" }] },
    ],
    [["payload.*.holder"], { card: { number: "4111111111111111", holder: "[redacted]" } }],
    [["result.card", "payload.nothing.there"], {}],
  ])("%j", (paths, changed) => {
    expect(makeRedactor(paths).value("payload", value)).toEqual({ ...value, ...changed });
  });

  test("what was hidden in the payload is hidden in errors, reasons and every other word about the job", async () => {
    const number = "4111111111111111";
    const said = `card ${number} was refused`;
    const error = {
      class: "CardError",
      message: said,
      stack: `CardError: ${said}\n    at pay`,
      causes: [{ class: "E", message: said }],
    };
    const detail = fakeDetail(
      {
        payload: { card: { number }, note: `call about ${number}` },
        result: null,
        meta: { password: "open sesame" },
        key: `pay:${number}`,
        reason: said,
        log: [{ epoch: 1, worker: null, startedAt: null, endedAt: new Date(0), outcome: "failed", error }],
      },
      {
        timeline: [
          {
            at: new Date(0),
            what: "attempt-ended",
            title: "failed",
            detail: said,
            epoch: 1,
            worker: null,
            durationMs: 1,
          },
        ],
        why: { summary: said, findings: [{ blocks: true, text: said, advice: null }] },
      },
    );
    const redact = ["payload.card.number", "*.password"];
    const answer = await ask(
      open({ role: "admin" }, { stint: fakeStint({ job: detail }), redact }),
      `/api/jobs/${jobId}`,
    );

    expect(answer.text).not.toContain(number);
    expect(answer.text).not.toContain("open sesame");
    expect(answer.body).toMatchObject({
      job: { reason: "card [redacted] was refused", createdAt: "1970-01-01T00:00:00.000Z" },
    });
  });

  test("error messages can be hidden as a whole, in lists too", async () => {
    const row = { id: jobId, reason: "secret thing", error: { name: "E", message: "secret thing" } };
    const error = { class: "E", message: "secret thing", stack: "E: secret thing\n  at x" };
    const stint = fakeStint({
      jobs: { jobs: [row], next: null, partial: false },
      preview: { matched: { count: 1, capped: false }, sample: [row] },
      job: fakeDetail(
        {
          reason: "secret thing",
          log: [{ epoch: 1, worker: null, startedAt: null, endedAt: new Date(0), outcome: "failed", error }],
        },
        { why: { summary: "It failed with: secret thing", findings: [] } },
      ),
    });
    const dashboard = open({ role: "admin" }, { stint, redact: ["error.message", "error.stack"] });
    const filter = { state: "dead" };
    for (const answer of [
      await ask(dashboard, "/api/jobs"),
      await ask(dashboard, `/api/jobs/${jobId}`),
      await post(dashboard, "/api/operations/preview", { action: "replay", filter }),
    ]) {
      expect(answer.status).toBe(200);
      expect(answer.text).not.toContain("secret thing");
    }
  });

  test("a value nested without end neither fails nor slips through", async () => {
    let deep: unknown = { password: "at the bottom" };
    for (let level = 0; level < 3_000; level++) deep = { in: deep };
    const stint = fakeStint({ job: fakeDetail({ payload: deep }) });
    const answer = await ask(
      open({ role: "admin" }, { stint, redact: ["*.password"] }),
      `/api/jobs/${jobId}`,
    );
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain("at the bottom");
  });

  test("a payload too large to read is cut, and says so", async () => {
    const stint = fakeStint({ job: fakeDetail({ payload: { text: "x".repeat(400_000) } }) });
    const answer = await ask(open({ role: "admin" }, { stint }), `/api/jobs/${jobId}`);
    expect(answer.body).toMatchObject({
      cut: ["payload"],
      job: { payload: expect.stringContaining("(cut: 400011 characters") },
    });
    expect(answer.text.length).toBeLessThan(300_000);
  });

  test.each(["password", "", "payload..x", 3])("the path %j is refused", (path) => {
    expect(() => makeRedactor([path as string])).toThrow("createDashboard.redact");
  });
});

describe("production", () => {
  const environment = { name: "live", production: true };
  const begin = { action: "cancel", filter: { queue: "mail" }, reason: "wrong template" };

  test.each([undefined, "", "Live", "demo", true])(
    "a bulk operation confirmed with %j is not begun",
    async (confirm) => {
      const stint = fakeStint();
      const answer = await post(open({ role: "admin" }, { stint, environment }), "/api/operations", {
        ...begin,
        confirm,
      });
      expect([answer.status, answer.body]).toMatchObject([400, { error: { code: "CONFIRMATION_NEEDED" } }]);
      expect(stint.calls).toEqual([]);
    },
  );

  test("with its name it is, by its actor and for its reason", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "operate", user: "ada" }, { stint, environment });
    expect((await post(dashboard, "/api/operations", { ...begin, confirm: "live" })).status).toBe(201);
    expect(stint.calls).toEqual([
      { name: "begin", args: ["cancel", { queue: "mail" }, { reason: "wrong template", actor: "ada" }] },
    ]);
  });
});

test("an answer that breaks off in the middle does not end the process", async () => {
  const { answerNode } = await import("#dashboard/node.js");
  const port = await listen((_req, res) => {
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("begun")),
      pull: () => {
        throw new Error("broken");
      },
    });
    void answerNode(res, async () => new Response(body));
  });
  await expect(
    fetch(`http://127.0.0.1:${port}/`).then(async (response) => await response.text()),
  ).rejects.toThrow("terminated");
});

test("the bucket refills at its rate and never beyond its burst", () => {
  let now = 0;
  const rate = new Rate({ perSecond: 2, burst: 4 }, () => now);
  const takes = (count: number): number[] => Array.from({ length: count }, () => rate.take("ada"));

  expect(takes(5)).toEqual([0, 0, 0, 0, 1]);
  now += 1_000;
  expect(takes(3)).toEqual([0, 0, 1]);
  now += 3_600_000;
  expect(takes(5)).toEqual([0, 0, 0, 0, 1]);
});

test("serves alone on a port of its own, and on another if that one is taken and any will do", async () => {
  const dashboard = createDashboard({ stint: fakeStint(), logger: silentLogger });
  const blocker = createServer();
  const port = await listen(blocker);
  await expect(serveDashboard(dashboard, { port })).rejects.toThrow("is taken");
  const served = await serveDashboard(dashboard, { port, orAnyPort: true });
  onTestFinished(async () => await served.close());

  expect(served.port).not.toBe(port);
  expect((await fetch(`${served.url}api/me`)).status).toBe(200);
  // A slash too many at the end of a page's address leads to the same files.
  expect(await (await fetch(`${served.url}queues/`)).text()).toContain('<base href="/"');
});
