/** Guesses at secrets are throttled; a client that logged in is not throttled with them. */
import { expect, test } from "vitest";
import { anyOf, basic, bearer, type DashboardOptions } from "#dashboard/index.js";
import { LoginThrottle } from "#dashboard/login-throttle.js";
import { Rate } from "#dashboard/rate.js";
import { request, browserHeaders, open, origin } from "./support/request.ts";
import { listen, raw } from "./support/listen.ts";

const password = "a-password-of-some-length";
const secret = (guess: string): string => `Basic ${Buffer.from(`ada:${guess}`).toString("base64")}`;
const options: Partial<DashboardOptions> = {
  authorize: basic({ password }),
  // The header of a trusted proxy.
  addressOf: (request) => request.headers.get("x-real-ip"),
};

function door() {
  const dashboard = open(null, options);
  return async (guess: string, from: string, headers: Record<string, string> = {}) =>
    await request(dashboard, "/", {
      headers: { ...browserHeaders, "x-real-ip": from, authorization: secret(guess), ...headers },
    });
}

/** All at once: on a slow machine, sequential guesses would be forgiven before the last one. */
async function flood<T>(count: number, send: (n: number) => Promise<T>): Promise<T[]> {
  return await Promise.all(Array.from({ length: count }, async (_, n) => await send(n)));
}

test("after too many wrong secrets an address waits, even with the right one", async () => {
  const knock = door();
  const wrong = await flood(20, async (n) => await knock(`guess ${n}`, "1.1.1.1"));
  expect(new Set(wrong.map(({ status }) => status))).toEqual(new Set([401]));

  const refused = await knock("guess 11", "1.1.1.1");
  expect([refused.status, refused.body]).toMatchObject([429, { error: { code: "TOO_MANY_GUESSES" } }]);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  // If the secret were checked now, the throttle would have no effect.
  expect((await knock(password, "1.1.1.1")).status).toBe(429);
  expect((await knock(password, "2.2.2.2")).status).toBe(200);
});

test("many addresses together are throttled; a client that logged in before is not", async () => {
  const knock = door();
  const cookie = (await knock(password, "9.9.9.9")).headers.get("set-cookie")?.split(";")[0] ?? "";
  // One less than the limit, so that the last hundred are checked, too, on a machine of any speed.
  for (const [turn, count] of [99, 100, 100].entries())
    await flood(count, async (n) => await knock(`guess ${n}`, `10.0.${turn}.${n}`));

  expect((await knock(password, "3.3.3.3")).status).toBe(429);
  expect((await knock(password, "9.9.9.9", { cookie })).status).toBe(200);
  expect((await knock(password, "10.0.0.1", { cookie: `theme=dark; ${cookie}` })).status).toBe(200);
});

test("the cookie grants no access, and is bound to this process and the right secret", async () => {
  const [knock, other] = [door(), door()];
  const given = (await knock(password, "1.1.1.1")).headers.get("set-cookie") ?? "";
  expect(given).toMatch(/^stint-known=[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/);
  const cookie = given.split(";")[0] ?? "";
  expect((await knock(password, "1.1.1.1", { cookie })).headers.get("set-cookie")).toBeNull();
  expect((await other(password, "1.1.1.1", { cookie })).headers.get("set-cookie")).not.toBeNull();

  await flood(20, async (n) => await knock(`guess ${n}`, "1.1.1.1", { cookie }));
  expect((await knock("guess", "1.1.1.1", { cookie })).status).toBe(429);
  expect((await knock(password, "1.1.1.1")).status).toBe(429);
  expect((await knock(password, "1.1.1.1", { cookie })).status).toBe(200);
  const forged = cookie.replace(/=(.)/, (_, first: string) => (first === "A" ? "=B" : "=A"));
  expect((await knock(password, "4.4.4.4", { cookie: forged })).headers.get("set-cookie")).not.toBeNull();
});

test("a viewer gets no extra guesses at the password of a higher role", async () => {
  const token = "a-token-of-prometheus";
  const dashboard = open(null, {
    ...options,
    authorize: anyOf(basic({ password }), bearer({ token, role: "view" })),
  });
  const send = async (path: string, authorization: string, cookie = "") =>
    await request(dashboard, path, {
      headers: { ...browserHeaders, "x-real-ip": "1.1.1.1", authorization, cookie },
    });
  expect((await send("/metrics", `Bearer ${token}`)).headers.get("set-cookie")).toBeNull();

  const guessed: number[] = [];
  for (let n = 0; n < 40; n += 1) {
    const [cookie] = (await send("/", `Bearer ${token}`)).headers.get("set-cookie")?.split(";") ?? [];
    guessed.push((await send("/", secret(`guess ${n}`), cookie)).status);
  }
  // Ten are allowed, and one more every five seconds on a slow machine.
  expect(guessed.filter((status) => status === 401).length).toBeLessThan(20);
  expect(guessed.at(-1)).toBe(429);
});

test("a request at which authorize throws counts as a guess", async () => {
  const dashboard = open(null, {
    ...options,
    authorize: async () => {
      throw new Error("that is no token");
    },
  });
  const knock = async () =>
    (
      await request(dashboard, "/", {
        headers: { ...browserHeaders, "x-real-ip": "1.1.1.1", authorization: "x" },
      })
    ).status;
  expect(new Set(await flood(20, knock))).toEqual(new Set([500]));
  expect(await knock()).toBe(429);
});

test("of 1,000 concurrent guesses 100 are checked, and later logins work", async () => {
  const knock = door();
  const [known] = (await knock(password, "9.9.9.9")).headers.get("set-cookie")?.split(";") ?? [];
  const [statuses, right] = await Promise.all([
    flood(1_000, async (n) => (await knock(`guess ${n}`, "1.1.1.1")).status),
    knock(password, "9.9.9.9", { cookie: known ?? "" }),
  ]);
  expect(statuses.filter((status) => status === 401)).toHaveLength(100);
  expect(statuses.filter((status) => status === 429)).toHaveLength(900);
  // A client that signed in before does not wait with them.
  expect(right.status).toBe(200);
  // No guess still counts as undecided.
  expect((await knock(password, "2.2.2.2")).status).toBe(200);
});

test("without known addresses a stranger locks no one out; all together still wait", async () => {
  const dashboard = open(null, { authorize: basic({ password }) });
  const knock = async (guess: string) =>
    (await request(dashboard, "/", { headers: { ...browserHeaders, authorization: secret(guess) } })).status;
  await flood(99, async (n) => await knock(`guess ${n}`));
  expect(await knock(password)).toBe(200);
  await flood(100, async (n) => await knock(`guess ${n}`));
  await flood(100, async (n) => await knock(`guess ${n}`));
  expect(await knock(password)).toBe(429);
});

test("an address of any length is stored shortened", () => {
  const loginThrottle = new LoginThrottle(() => 0);
  const request = new Request(origin, { headers: { authorization: secret("guess") } });
  const tries = Array.from({ length: 10 }, (_, n) => loginThrottle.begin(request, `${"1".repeat(64)}${n}`)!);
  for (const tried of tries) loginThrottle.end(tried, false);
  expect(() => loginThrottle.begin(request, "1".repeat(64))).toThrow("Too many wrong secrets");
});

test("a path cannot write attributes into the cookie", () => {
  const request = new Request(origin, { headers: { authorization: secret("guess") } });
  const given = new LoginThrottle().cookieFor(
    { known: false, address: "" },
    request,
    "/ops;Domain=example.com",
  );
  expect(given).toContain("; Path=/ops%3BDomain=example.com/; Max-Age=");
});

test("a request without a secret is no guess, so an expired session may poll", async () => {
  const dashboard = open(null, options);
  const statuses = await Promise.all(
    Array.from({ length: 50 }, async () => (await request(dashboard, "/api/me")).status),
  );
  expect(new Set(statuses)).toEqual(new Set([401]));
});

test("concurrent guesses are all counted", async () => {
  let now = 0;
  const loginThrottle = new LoginThrottle(() => now);
  const request = new Request(origin, { headers: { authorization: secret("guess") } });
  const tries = Array.from({ length: 20 }, () => loginThrottle.begin(request, "1.1.1.1")!);
  for (const tried of tries) loginThrottle.end(tried, false);

  expect(() => loginThrottle.begin(request, "1.1.1.1")).toThrow("Too many wrong secrets");
  // Ten beyond the burst: one is forgiven every five seconds.
  now = 50_000;
  expect(() => loginThrottle.begin(request, "1.1.1.1")).toThrow("Too many wrong secrets");
  now = 55_001;
  expect(loginThrottle.begin(request, "1.1.1.1")).toBeDefined();
});

test("without a proxy header the address is that of the connection", async () => {
  const dashboard = open(null, { authorize: basic({ password }) });
  const port = await listen((req, res) => {
    Object.defineProperty(req.socket, "remoteAddress", {
      configurable: true,
      value: req.headers["x-test-socket"],
    });
    dashboard.node(req, res);
  });
  const knock = async (guess: string, socket: string): Promise<number> => {
    const headers = { authorization: secret(guess), "x-test-socket": socket, "x-forwarded-for": guess };
    return (await raw(port, "/api/me", { headers })).status;
  };
  await flood(20, async (n) => await knock(`guess ${n}`, "5.5.5.5"));
  expect([await knock("guess", "5.5.5.5"), await knock(password, "6.6.6.6")]).toEqual([429, 200]);
});

test("cookies set by earlier middleware are kept", async () => {
  const dashboard = open(null, { authorize: basic({ password }) });
  const port = await listen((req, res) => {
    res.setHeader("set-cookie", "session=1");
    dashboard.node(req, res);
  });
  const { headers } = await raw(port, "/", { headers: { authorization: secret(password) } });
  expect(headers["set-cookie"]).toEqual(["session=1", expect.stringMatching(/^stint-known=/)]);
});

test("a throttle ends, and made-up names do not fill the memory", () => {
  let now = 0;
  const rate = new Rate({ perSecond: 1, burst: 2 }, () => now);
  for (let times = 0; times < 1_000; times += 1) rate.charge("ada");
  expect(rate.wait("ada")).toBe(3);
  now = 3_000;
  expect(rate.wait("ada")).toBe(0);

  rate.charge("bob");
  rate.charge("bob");
  rate.charge("bob");
  expect(rate.wait("bob")).toBeGreaterThan(0);
  for (let times = 0; times < 10_000; times += 1) rate.charge(`name ${times}`);
  expect(rate.wait("bob")).toBe(0);
});
