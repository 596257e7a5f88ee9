/** The files of the UI, and where the dashboard is mounted. */
import { createServer } from "node:http";
import { brotliCompressSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { silentLogger } from "stint";
import { createDashboard, serveDashboard } from "#dashboard/index.js";
import { Assets } from "#dashboard/assets.js";
import { baseHref, mountFromStripped, mountOf } from "#dashboard/mount.js";
import { fakeStint, jobId } from "./support/fake.ts";
import { listen } from "./support/listen.ts";

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
  ])("accept-encoding %s gets %s", async (accepted, encoding) => {
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
    "%j is a 404",
    async (name) => {
      await expect(assets.file(name, request())).rejects.toMatchObject({ status: 404 });
    },
  );

  test("without a built UI, the page reports it", async () => {
    const missing = new Assets(async () => {
      throw Object.assign(new Error("Cannot find module"), { code: "ERR_MODULE_NOT_FOUND" });
    });
    expect(await (await missing.page("./")).text()).toContain("is not built");
  });
});

describe("mount paths", () => {
  test.each([
    { path: "/", base: undefined, href: "./" },
    { path: "/queues", base: undefined, href: "./" },
    { path: `/jobs/${jobId}`, base: undefined, href: "../" },
    { path: "/ops/jobs/", base: undefined, href: "./" },
    { path: "/ops/jobs/api/health", base: "/ops/jobs", href: "/ops/jobs/" },
    { path: "/ops/jobs/assets/x.js", base: "/ops/jobs", href: "/ops/jobs/" },
  ])("$path, not configured", ({ path, base, href }) => {
    const place = mountOf(path, "");
    expect([place.base, baseHref(place)]).toEqual([base, href]);
  });

  test.each([
    ["/", "/ops", "/ops", ""],
    ["/", "/ops/", "/ops", "/"],
    ["/jobs", "/ops/jobs", "/ops", "/jobs"],
    ["/jobs/x", "/a/b/jobs/x", "/a/b", "/jobs/x"],
    ["/rewritten", "/something/else", undefined, "/rewritten"],
  ])("rewritten to %s of %s", (path, original, base, inner) => {
    expect(mountFromStripped(path, original)).toEqual({ base, inner });
  });
});

test("serves on its own port, or on another if that is taken and any is allowed", async () => {
  const dashboard = createDashboard({ stint: fakeStint(), logger: silentLogger });
  const blocker = createServer();
  const port = await listen(blocker);
  await expect(serveDashboard(dashboard, { port })).rejects.toThrow("is taken");
  const served = await serveDashboard(dashboard, { port, orAnyPort: true });
  onTestFinished(async () => await served.close());

  expect(served.port).not.toBe(port);
  expect((await fetch(`${served.url}api/me`)).status).toBe(200);
  // An extra trailing slash in a page's URL leads to the same files.
  expect(await (await fetch(`${served.url}queues/`)).text()).toContain('<base href="/"');
});
