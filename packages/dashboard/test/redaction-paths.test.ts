/** Values at the paths of `redact` never leave the server. */
import { describe, expect, test } from "vitest";
import { makeRedactor } from "#dashboard/redact.js";
import { request, open, post } from "./support/request.ts";
import { fakeDetail, fakeStint, jobId } from "./support/fake.ts";

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

  test("a value hidden in the payload is hidden in errors, reasons and other job text", async () => {
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
    const response = await request(
      open({ role: "admin" }, { stint: fakeStint({ job: detail }), redact }),
      `/api/jobs/${jobId}`,
    );

    expect(response.text).not.toContain(number);
    expect(response.text).not.toContain("open sesame");
    expect(response.body).toMatchObject({
      job: { reason: "card [redacted] was refused", createdAt: "1970-01-01T00:00:00.000Z" },
    });
  });

  test("error messages can be hidden completely, also in lists", async () => {
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
    for (const response of [
      await request(dashboard, "/api/jobs"),
      await request(dashboard, `/api/jobs/${jobId}`),
      await post(dashboard, "/api/operations/preview", { action: "replay", filter }),
    ]) {
      expect(response.status).toBe(200);
      expect(response.text).not.toContain("secret thing");
    }
  });

  test("an endlessly nested value neither fails nor is shown", async () => {
    let deep: unknown = { password: "at the bottom" };
    for (let level = 0; level < 3_000; level++) deep = { in: deep };
    const stint = fakeStint({ job: fakeDetail({ payload: deep }) });
    const response = await request(
      open({ role: "admin" }, { stint, redact: ["*.password"] }),
      `/api/jobs/${jobId}`,
    );
    expect(response.status).toBe(200);
    expect(response.text).not.toContain("at the bottom");
  });

  test("a payload too large to read is cut, with a mark", async () => {
    const stint = fakeStint({ job: fakeDetail({ payload: { text: "x".repeat(400_000) } }) });
    const response = await request(open({ role: "admin" }, { stint }), `/api/jobs/${jobId}`);
    expect(response.body).toMatchObject({
      cut: ["payload"],
      job: { payload: expect.stringContaining("(cut: 400011 characters") },
    });
    expect(response.text.length).toBeLessThan(300_000);
  });

  test("a payload too large to read has a preview of the same shape", async () => {
    const payload = {
      text: "x".repeat(400_000),
      list: Array.from({ length: 5_000 }, (_, n) => ({ n })),
      password: "hunter2",
    };
    const stint = fakeStint({ job: fakeDetail({ payload }) });
    const dashboard = open({ role: "admin" }, { stint, redact: ["*.password"] });
    const response = await request(dashboard, `/api/jobs/${jobId}`);
    const { preview } = response.body as { preview: { payload: typeof payload } };
    expect(preview.payload.text).toMatch(/^x{1000}… 399,000 more characters$/);
    expect(preview.payload.list.slice(0, 2)).toEqual([{ n: 0 }, { n: 1 }]);
    expect(preview.payload.list.at(-1)).toBe("… 4,900 more items");
    expect(preview.payload.password).toBe("[redacted]");
    expect(response.text.length).toBeLessThan(50_000);
  });

  test("the whole payload is a file: redacted, audited, and only with payload rights", async () => {
    const payload = { text: "x".repeat(400_000), password: "hunter2" };
    const seen: string[] = [];
    const stint = fakeStint({ job: fakeDetail({ payload, result: { ok: "hunter2" } }) });
    const options = {
      stint,
      redact: ["*.password"],
      onAudit: ({ job }: { job: string | null }) => void seen.push(job ?? ""),
    };
    const path = `/api/jobs/${jobId}?download=payload`;
    const refused = await request(open({ role: "view" }, options), path);
    expect([refused.status, refused.text.includes("xxx"), seen]).toEqual([403, false, []]);

    const admin = open({ role: "admin" }, options);
    const response = await request(admin, path);
    expect(response.body).toEqual({ ...payload, password: "[redacted]" });
    expect(response.headers.get("content-disposition")).toBe(`attachment; filename="${jobId}-payload.json"`);
    expect(seen).toEqual([jobId]);
    // A value redacted in the payload is redacted in the result, too.
    expect((await request(admin, `/api/jobs/${jobId}?download=result`)).body).toEqual({ ok: "[redacted]" });
    const gone = open({ role: "admin" }, { stint: fakeStint({ job: undefined }) });
    expect((await request(gone, path)).status).toBe(404);
    expect((await request(admin, `/api/jobs/${jobId}?download=meta`)).status).toBe(400);
  });

  test.each(["password", "", "payload..x", 3])("the path %j is refused", (path) => {
    expect(() => makeRedactor([path as string])).toThrow("createDashboard.redact");
  });
});
