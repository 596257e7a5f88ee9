/** Without `authorize`, only this machine is served. */
import { describe, expect, test } from "vitest";
import { silentLogger } from "stint";
import { createDashboard } from "#dashboard/index.js";
import { fakeStint } from "./support/fake.ts";
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
  ])("a local request for %j gets %i", async (host, status) => {
    expect((await raw(await local(), "/api/health", { headers: { host } })).status).toBe(status);
  });

  test.each(["10.0.0.9", "::ffff:192.168.1.4", "2001:db8::1", "1127.0.0.1", undefined])(
    "the address %s gets nothing",
    async (address) => {
      const port = await local(address ?? "");
      for (const path of ["/", "/api/health", "/metrics", "/assets/x.js"]) {
        const response = await raw(port, path, { headers: { host: "localhost" } });
        expect([response.status, JSON.parse(response.text)]).toMatchObject([
          403,
          { error: { code: "LOCAL_ONLY" } },
        ]);
      }
    },
  );

  test.each(["::1", "::ffff:127.0.0.1", "127.8.8.8"])("the address %s is local", async (address) => {
    expect((await raw(await local(address), "/api/health", { headers: { host: "localhost" } })).status).toBe(
      200,
    );
  });

  test.each(["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"])(
    "a proxy that sends %s is not trusted as local",
    async (name) => {
      const headers = { host: "localhost", [name]: "127.0.0.1" };
      expect((await raw(await local(), "/api/health", { headers })).status).toBe(403);
    },
  );
});
