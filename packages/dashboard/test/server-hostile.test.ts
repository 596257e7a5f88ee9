/** Hostile requests do no harm, and every refusal is a response. */
import { describe, expect, test } from "vitest";
import { request, open, post } from "./support/request.ts";
import { fakeStint, jobId } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

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
    const response = await raw(port, path);

    expect(response.status).toBeLessThan(500);
    expect(response.headers["set-cookie"]).toBeUndefined();
    expect(response.headers.location ?? "").not.toContain("evil");
    expect(response.text).not.toContain("<script>alert");
    expect(response.text).not.toContain("root:");
    expect(response.text).not.toContain("devDependencies");
    expect(response.text).not.toMatch(/evil\.example|    at /);
  });

  test("the mount path is escaped in the page, and no redirect leaves the host", async () => {
    const dashboard = open();
    const mounted = await listen((req, res) => {
      // The path as left by a framework with a wildcard mount.
      const originalUrl = req.url ?? "/";
      dashboard.node(Object.assign(req, { originalUrl, url: "/" }), res);
    });
    const page = await raw(mounted, '/"onload="alert(1)/');
    expect(page.text).not.toContain('"onload="');
    for (const path of ["//evil.example", "/\\evil.example"]) {
      const response = await raw(mounted, path);
      expect([response.status, response.headers.location]).toEqual([400, undefined]);
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

  test.each(hostile)("%j is sent to the database as a value and returned as data", async (text) => {
    const stint = fakeStint({
      jobs: { jobs: [{ id: jobId, key: text, error: null }], next: null, partial: false },
    });
    const dashboard = open({ role: "admin" }, { stint });
    for (const name of ["kind", "queue", "tenant", "key", "tag", "error"]) {
      const response = await request(
        dashboard,
        `/api/jobs?${new URLSearchParams({ [name]: text }).toString()}`,
      );
      expect([response.status, response.body]).toMatchObject([200, { jobs: [{ key: text }] }]);
      expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(stint.calls.at(-1)?.args[0]).toMatchObject({ [name]: text });
    }
  });

  test.each(unreadable)("%j is refused in every text parameter", async (text) => {
    const stint = fakeStint();
    const dashboard = open({ role: "admin" }, { stint });
    const query = (name: string): string => new URLSearchParams({ [name]: text }).toString();
    const asked = [
      ...["kind", "queue", "tenant", "key", "tag", "error", "after", "since", "until", "limit", "state"].map(
        (name) => request(dashboard, `/api/jobs?${query(name)}`),
      ),
      ...["queue", "kind", "range"].map((name) => request(dashboard, `/api/series?${query(name)}`)),
      post(dashboard, `/api/jobs/${jobId}/cancel`, { reason: text }),
      post(dashboard, `/api/jobs/${jobId}/replay`, { reason: text }),
      post(dashboard, "/api/operations", { action: "replay", filter: { key: text }, reason: "x" }),
      post(dashboard, "/api/operations", { action: "replay", filter: { state: "dead" }, reason: text }),
    ];
    for (const response of await Promise.all(asked)) expect(response.status).toBe(400);
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
  ])("POST %s with %j is refused before any action", async (path, body) => {
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
  ])("GET %s is refused: a misspelt filter would match everything", async (path) => {
    expect((await request(open(), path)).status).toBe(400);
  });

  test("a body over its limit is refused with a response, not a closed connection", async () => {
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

test("a response that breaks off does not end the process", async () => {
  const { respondNode } = await import("#dashboard/node.js");
  const port = await listen((_req, res) => {
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("begun")),
      pull: () => {
        throw new Error("broken");
      },
    });
    void respondNode(res, async () => new Response(body));
  });
  await expect(
    fetch(`http://127.0.0.1:${port}/`).then(async (response) => await response.text()),
  ).rejects.toThrow("terminated");
});
