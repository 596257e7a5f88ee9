/** Access by role and origin: a matrix over all routes. */
import { describe, expect, test } from "vitest";
import { anyOf, basic, bearer, createDashboard, type Access } from "#dashboard/index.js";
import { roles, type Right } from "#dashboard/access.js";
import type { Route } from "#dashboard/route.js";
import { routes } from "#dashboard/routes/index.js";
import { silentLogger } from "stint";
import { request, browserHeaders, open, post, type TestResponse } from "./support/request.ts";
import { bodyOf, pathOf } from "./support/calls.ts";
import { fakeStint, jobId } from "./support/fake.ts";

const named = routes.map((route) => ({ name: `${route.method} ${route.path}`, route }));
const writes = named.filter(({ route }) => route.method === "POST");
const reads = named.filter(({ route }) => route.method === "GET");

async function send(
  dashboard: ReturnType<typeof open>,
  route: Route,
  headers: Record<string, string> = browserHeaders,
): Promise<TestResponse> {
  return route.method === "POST"
    ? await post(dashboard, pathOf(route), bodyOf(route), headers)
    : await request(dashboard, pathOf(route), { headers });
}

function codeOf({ body }: TestResponse): unknown {
  return (body as { error?: { code?: unknown } } | undefined)?.error?.code;
}

describe("roles", () => {
  const rank: Record<Right, number> = { view: 0, operate: 1, admin: 2 };
  const matrix = named.flatMap(({ name, route }) =>
    roles.map((role) => ({ name, route, role, may: rank[role] >= rank[route.right] })),
  );

  test.each(matrix)("$role on $name: allowed $may", async ({ route, role, may }) => {
    const stint = fakeStint();
    const response = await send(open({ role, user: "ada" }, { stint }), route);

    expect(response.status).toBe(may ? (route.status ?? 200) : 403);
    expect(codeOf(response)).toBe(may ? undefined : "NOT_ALLOWED");
    // A refused request runs no query.
    expect(stint.calls.length > 0).toBe(may && route.path !== "me");
  });

  test("every route that writes needs more than view", () => {
    expect(writes.map(({ route }) => route.right)).not.toContain("view");
    expect(writes.length).toBeGreaterThan(4);
  });

  test.each(named)("$name is refused to a stranger", async ({ route }) => {
    const stint = fakeStint();
    const response = await send(open(null, { stint }), route);

    expect([response.status, codeOf(response)]).toEqual([401, "NOT_SIGNED_IN"]);
    expect(stint.calls).toEqual([]);
  });

  test.each(["/", "/jobs", "/metrics", "/assets/x.js"])("%s is refused to a stranger", async (path) => {
    expect((await request(open(null), path)).status).toBe(401);
  });

  test.each([{ role: "root" }, { role: "__proto__" }, {}, "admin", true])(
    "an invalid result of authorize (%j) grants no access",
    async (access) => {
      const response = await request(open(access as Access), "/api/health");
      expect(response.status).toBeGreaterThanOrEqual(400);
      expect(response.text).not.toContain("queues");
    },
  );

  test("an authorize that throws grants no access, and its message is not sent", async () => {
    const dashboard = open(null, {
      authorize: () => {
        throw new Error("the session store at 10.0.0.7 is away");
      },
    });
    const response = await request(dashboard, "/api/health");

    expect([response.status, codeOf(response)]).toEqual([500, "INTERNAL"]);
    expect(response.text).not.toContain("10.0.0.7");
  });

  test.each([
    { access: { role: "view" }, payloads: false },
    { access: { role: "operate" }, payloads: false },
    { access: { role: "admin" }, payloads: true },
    { access: { role: "view", payloads: true }, payloads: true },
    { access: { role: "admin", payloads: false }, payloads: false },
  ] as const)("$access sees payloads: $payloads", async ({ access, payloads }) => {
    const dashboard = open(access);
    const detail = await request(dashboard, `/api/jobs/${jobId}`);
    const me = await request(dashboard, "/api/me");

    expect(detail.text.includes("of the payload")).toBe(payloads);
    expect((detail.body as { hidden?: boolean }).hidden).toBe(payloads ? undefined : true);
    expect(me.body).toMatchObject({ can: { view: true, payloads } });
  });
});

describe("without authorize", () => {
  test.each(named)("a Request has no sender, so $name is refused", async ({ route }) => {
    const stint = fakeStint();
    const dashboard = createDashboard({ stint, logger: silentLogger });
    const headers = { ...browserHeaders, host: "localhost:4000", origin: "http://localhost:4000" };

    expect(codeOf(await send(dashboard, route, headers))).toBe("LOCAL_ONLY");
    expect(stint.calls).toEqual([]);
  });

  test("authorize: undefined is an error, unlike leaving it out", () => {
    const options = { stint: fakeStint(), authorize: undefined } as unknown as Parameters<
      typeof createDashboard
    >[0];
    expect(() => createDashboard(options)).toThrow("createDashboard.authorize");
  });

  test("a misspelt option is refused", () => {
    const options = { stint: fakeStint(), authorise: () => null } as Parameters<typeof createDashboard>[0];
    expect(() => createDashboard(options)).toThrow("createDashboard.authorise: is not an option");
  });
});

describe("requests from other sites", () => {
  const { "sec-fetch-site": _, origin: __, ...bare } = browserHeaders;
  const cases: { what: string; headers: Record<string, string>; read: boolean; write: boolean }[] = [
    { what: "our own page", headers: browserHeaders, read: true, write: true },
    {
      what: "another site",
      headers: { ...browserHeaders, "sec-fetch-site": "cross-site" },
      read: false,
      write: false,
    },
    {
      what: "a sister site",
      headers: { ...browserHeaders, "sec-fetch-site": "same-site" },
      read: false,
      write: false,
    },
    { what: "the address bar", headers: { ...bare, "sec-fetch-site": "none" }, read: true, write: false },
    {
      what: "our origin, old browser",
      headers: { ...bare, origin: browserHeaders.origin },
      read: true,
      write: true,
    },
    {
      what: "another origin, old browser",
      headers: { ...bare, origin: "https://evil.example" },
      read: true,
      write: false,
    },
    { what: "origin null", headers: { ...bare, origin: "null" }, read: true, write: false },
    {
      what: "same-origin with another origin",
      headers: { ...browserHeaders, origin: "https://evil.example" },
      read: true,
      write: false,
    },
    {
      what: "another port of this host",
      headers: { ...browserHeaders, origin: `${browserHeaders.origin}:8443` },
      read: true,
      write: false,
    },
    { what: "no browser, nothing said", headers: bare, read: true, write: false },
    { what: "a program", headers: { ...bare, "x-stint": "1" }, read: true, write: true },
    {
      what: "another site with the header",
      headers: { ...browserHeaders, "sec-fetch-site": "cross-site", "x-stint": "1" },
      read: false,
      write: false,
    },
  ];

  test.each(
    cases.flatMap(({ what, headers, write }) =>
      writes.map(({ name, route }) => ({ what, headers, write, name, route })),
    ),
  )("$what, $name: $write", async ({ headers, route, write }) => {
    const stint = fakeStint();
    const response = await send(open({ role: "admin" }, { stint }), route, headers);
    expect(response.status).toBe(write ? (route.status ?? 200) : 403);
    expect(codeOf(response)).toBe(write ? undefined : "CROSS_SITE");
    expect(stint.calls.length > 0).toBe(write);
  });

  test.each(
    cases.flatMap(({ what, headers, read }) =>
      reads.map(({ name, route }) => ({ what, headers, read, name, route })),
    ),
  )("$what, $name: $read", async ({ headers, route, read }) => {
    expect((await send(open(), route, headers)).status).toBe(read ? 200 : 403);
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/jsonp",
    "",
  ])("a body of type %j is refused on every route", async (type) => {
    const dashboard = open();
    for (const { route } of writes) {
      const response = await post(dashboard, pathOf(route), bodyOf(route), {
        ...browserHeaders,
        "content-type": type,
      });
      expect([response.status, codeOf(response)]).toEqual([415, "NOT_JSON"]);
    }
  });

  test.each(writes)("$name refuses every other method", async ({ route }) => {
    const stint = fakeStint();
    const dashboard = open({ role: "admin" }, { stint });
    for (const method of ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
      if (routes.some((other) => other.method === method && other.path === route.path)) continue;
      const response = await request(dashboard, pathOf(route), { method });
      // GET operations/preview is parsed as the operation with the id "preview".
      expect([400, 405]).toContain(response.status);
    }
    expect(stint.calls).toEqual([]);
  });

  test("no response allows other origins", async () => {
    const response = await request(open(), "/api/health", {
      headers: { ...browserHeaders, origin: "https://evil.example" },
    });
    expect([...response.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("host names", () => {
  const headers = (host: string): Record<string, string> => ({
    ...browserHeaders,
    host,
    origin: `http://${host}`,
  });

  test.each([
    ["jobs.example.com", 200],
    ["JOBS.example.com", 200],
    ["jobs.example.com:8080", 200],
    ["evil.example", 403],
    ["jobs.example.com.evil.example", 403],
    ["evil.example:80@jobs.example.com", 403],
  ])("%s → %i, when one is listed", async (host, status) => {
    const dashboard = open({ role: "admin" }, { hosts: ["jobs.example.com"] });
    expect((await request(dashboard, "/api/health", { headers: headers(host) })).status).toBe(status);
  });
});

describe("responses", () => {
  test.each([
    ...named.map(({ route }) => pathOf(route)),
    "/",
    "/x",
    "/metrics",
    "/assets/nope.js",
    "/api/nope",
  ])("%s carries every header of the policy, also when refused", async (path) => {
    for (const dashboard of [open(), open(null)]) {
      const { headers } = await request(dashboard, path);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
          "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
      );
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
      expect(headers.get("cache-control")).toMatch(/^no-store/);
      expect(headers.get("x-powered-by")).toBeNull();
    }
  });

  test("an unexpected error is logged with an id, and only the id is sent", async () => {
    const lines: { fields: object; message: string }[] = [];
    const logger = {
      ...silentLogger,
      error: (fields: object, message: string) => lines.push({ fields, message }),
    };
    const stint = fakeStint({ health: new TypeError("cannot read /etc/stint/secret at line 3") });
    const response = await request(open({ role: "admin" }, { stint, logger }), "/api/health");

    const { message } = (response.body as { error: { message: string } }).error;
    const id = /logged as ([0-9a-f-]{36})/.exec(message)?.[1];
    expect(response.status).toBe(500);
    expect(lines).toMatchObject([{ fields: { id, err: expect.any(TypeError) } }]);
    expect(response.text).not.toMatch(/secret|TypeError|\.ts|\.js|at /);
  });

  test.each([
    [
      "connection refused",
      Object.assign(new Error("connect ECONNREFUSED 10.1.2.3:5432"), { code: "ECONNREFUSED" }),
    ],
    ["shut down", Object.assign(new Error("terminating connection of user boss"), { code: "57P01" })],
    ["full", Object.assign(new Error("too many clients"), { code: "53300" })],
  ])("an unreachable database (%s) is a plain 503", async (_, error) => {
    const response = await request(
      open({ role: "view" }, { stint: fakeStint({ health: error }) }),
      "/api/health",
    );

    expect([response.status, codeOf(response)]).toEqual([503, "DATABASE_UNAVAILABLE"]);
    expect(response.text).not.toContain(error.message);
  });

  test("a statement timeout has its own error", async () => {
    const error = Object.assign(new Error("canceling statement due to statement timeout"), { code: "57014" });
    const response = await request(
      open({ role: "view" }, { stint: fakeStint({ jobs: error }) }),
      "/api/jobs",
    );
    expect([response.status, codeOf(response)]).toEqual([503, "TOO_SLOW"]);
  });
});

describe("limits", () => {
  test("each user has their own rate limit; beyond it 429 has a retry-after", async () => {
    let user = "ada";
    const dashboard = open(null, {
      authorize: () => ({ role: "view", user }),
      limits: { requestsPerSecond: 1, burst: 3 },
    });
    const statuses: number[] = [];
    for (let count = 0; count < 4; count++) statuses.push((await request(dashboard, "/api/me")).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect((await request(dashboard, "/api/me")).headers.get("retry-after")).toBe("1");

    user = "grace";
    expect((await request(dashboard, "/api/me")).status).toBe(200);
  });

  test("bodies and URLs have limits", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "admin" }, { stint });
    const large = JSON.stringify({ reason: "x".repeat(70_000) });

    expect((await post(dashboard, `/api/jobs/${jobId}/cancel`, large)).status).toBe(413);
    expect((await request(dashboard, `/api/jobs?key=${"x".repeat(9_000)}`)).status).toBe(414);
    expect(stint.calls).toEqual([]);
  });

  test("a body without a length is cut off at the limit", async () => {
    const part = new TextEncoder().encode(" ".repeat(30_000));
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1;
        if (sent > 1_000) controller.close();
        else controller.enqueue(part);
      },
    });
    const request = new Request(`https://jobs.example.com/api/jobs/${jobId}/cancel`, {
      method: "POST",
      headers: { ...browserHeaders, "content-type": "application/json" },
      body,
      duplex: "half",
    } as RequestInit);
    const response = await open().fetch(request);

    expect(response.status).toBe(413);
    expect(sent).toBeLessThan(10);
  });

  test("live updates are limited, in total and per user", async () => {
    let user = "ada";
    const dashboard = open(null, {
      authorize: () => ({ role: "view", user }),
      limits: { streams: 3, streamsPerUser: 2 },
    });
    const listen = async (): Promise<number> => {
      const response = await dashboard.fetch(new Request("https://jobs.example.com/api/events"));
      return response.status;
    };
    expect([await listen(), await listen(), await listen()]).toEqual([200, 200, 429]);
    user = "grace";
    expect([await listen(), await listen()]).toEqual([200, 429]);
  });
});

describe("secrets", () => {
  const secret = "a-token-of-some-length";
  const withSecret = (authorization?: string): Request =>
    new Request(
      "https://jobs.example.com/api/me",
      authorization === undefined ? {} : { headers: { authorization } },
    );
  const encode = (text: string): string => Buffer.from(text).toString("base64");

  test.each([
    [`Bearer ${secret}`, { role: "admin" }],
    [`bearer ${secret}`, { role: "admin" }],
    ["Bearer the-token-of-a-reader", { role: "view", user: "prometheus" }],
    [`Bearer ${secret}x`, null],
    [`Bearer ${secret.slice(1)}`, null],
    ["Bearer ", null],
    [secret, null],
    [`Basic ${encode(`:${secret}`)}`, null],
    [undefined, null],
  ])("bearer: %s", async (header, access) => {
    const authorize = bearer([secret, { token: "the-token-of-a-reader", role: "view", user: "prometheus" }]);
    expect(await authorize(withSecret(header), {})).toEqual(access);
  });

  test.each([
    [`Basic ${encode(`ada:${secret}`)}`, { role: "operate", user: "ada" }],
    [`Basic ${encode(`grace:${secret}`)}`, null],
    [`Basic ${encode(`ada:${secret}:`)}`, null],
    [`Basic ${encode("ada")}`, null],
    ["Basic !!!", null],
  ])("basic: %s", async (header, access) => {
    expect(await basic({ user: "ada", password: secret, role: "operate" })(withSecret(header), {})).toEqual(
      access,
    );
  });

  test("with any user, the given name is the actor", async () => {
    const either = anyOf(bearer(secret), basic({ password: secret }));
    expect(await either(withSecret(`Basic ${encode(`grace:${secret}`)}`), {})).toEqual({
      role: "admin",
      user: "grace",
    });
    expect(await either(withSecret(`Bearer ${secret}`), {})).toEqual({ role: "admin" });
    expect(await either(withSecret("Bearer wrong-wrong-wrong-wrong"), {})).toBeNull();
  });

  test("a weak secret is refused when the dashboard is created", () => {
    expect(() => bearer("short")).toThrow("at least 16 characters");
    expect(() => basic({ password: "" })).toThrow("at least 16 characters");
    expect(() => bearer(undefined as unknown as string)).toThrow("at least 16 characters");
  });

  test("a refused client is asked for a password", async () => {
    const dashboard = open(null, { authorize: anyOf(bearer(secret), basic({ password: secret })) });
    const { status, headers } = await request(dashboard, "/");
    expect(status).toBe(401);
    expect(headers.get("www-authenticate")).toContain('Basic realm="Stint"');
  });
});
