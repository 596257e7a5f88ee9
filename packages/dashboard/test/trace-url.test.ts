import { expect, test } from "vitest";
import { checkTraceUrl } from "#dashboard/trace-url.js";
import { request, open } from "./support/request.ts";

test.each([
  "https://traces.example.com/trace/{traceId}",
  "http://localhost:16686/trace/{traceId}?uiFind=1",
  "https://grafana.example.com/explore?left=%7B%22query%22:%22{traceId}%22%7D",
  "https://ui.example.com/#/traces/{traceId}",
])("%s is a valid trace URL", (url) => {
  expect(checkTraceUrl(url)).toBe(url);
});

test.each([
  "javascript:alert('{traceId}')",
  "data:text/html,{traceId}",
  "/trace/{traceId}",
  "https://traces.example.com/trace/",
  "https://traces.example.com/trace/{traceid}",
  "https://{traceId}.example.com/",
  "https://{traceId}.example.com/{traceId}",
  "https://%7BtraceId%7D.example.com/{traceId}",
  "https://me:{traceId}@example.com/",
  "https://me@example.com/{traceId}",
  "",
  3,
])("%j is no trace URL", (url) => {
  expect(() => open({ role: "view" }, { traceUrl: url as string })).toThrow("createDashboard.traceUrl");
});

test("the page gets the trace URL, or none", async () => {
  const traceUrl = "https://traces.example.com/{traceId}";
  expect((await request(open({ role: "view" }, { traceUrl }), "/api/me")).body).toMatchObject({ traceUrl });
  expect((await request(open({ role: "view" }), "/api/me")).body).toMatchObject({ traceUrl: null });
});
