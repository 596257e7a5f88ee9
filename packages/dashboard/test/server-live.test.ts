/** Live updates: one query serves all listeners, and none runs without listeners. */
import { describe, expect, test } from "vitest";
import { Events, nextPauseMs } from "#dashboard/events.js";
import { until } from "../../stint/test/support/until.ts";
import { request, open } from "./support/request.ts";
import { emptyHealth, fakeStint } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

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

  test("one query serves all listeners, and none runs without listeners", async () => {
    let asked = 0;
    const events = new Events(
      async () => {
        asked += 1;
        return JSON.stringify(emptyHealth);
      },
      { streams: 10, streamsPerUser: 10, refreshMs: 2_000 },
    );
    const streams = [1, 2, 3].map(() => events.open("ada")!);
    await Promise.all(streams.map(async (stream) => await readUntil(stream, "event: health")));
    expect([asked, events.listening]).toEqual([1, 3]);

    // The second read is also shared.
    await Promise.all(streams.map(async (stream) => await readUntil(stream, "event: health")));
    expect(asked).toBe(2);

    await Promise.all(streams.map(async (stream) => await stream.cancel()));
    expect(events.listening).toBe(0);
    const again = events.open("ada")!;
    await readUntil(again, "event: health");
    // A timer that had not stopped would have caused another read.
    expect(asked).toBe(3);
    events.close();
  });

  test("an error is sent, and the listener stays", async () => {
    let fails = true;
    const events = new Events(
      async () => {
        if (fails) throw Object.assign(new Error("10.0.0.7 is away"), { code: "ECONNREFUSED" });
        return JSON.stringify(emptyHealth);
      },
      { streams: 1, streamsPerUser: 1, refreshMs: 2_000 },
    );
    const stream = events.open("ada")!;
    const text = await readUntil(stream, "event: problem");
    expect(text).toContain("DATABASE_UNAVAILABLE");
    expect(text).not.toContain("10.0.0.7");

    fails = false;
    await readUntil(stream, "event: health");
    events.close();
  });

  test("close ends every stream, and a listener that leaves frees its place", async () => {
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

  test("concurrent requests for the same data share one response", async () => {
    const stint = fakeStint();
    const dashboard = open({ role: "view" }, { stint });
    await Promise.all(Array.from({ length: 20 }, async () => await request(dashboard, "/api/stats")));
    expect(stint.calls.filter(({ name }) => name === "stats")).toHaveLength(1);
  });

  test("a failure is not cached for the next request", async () => {
    let fails = true;
    const stint = fakeStint({
      stats: () => {
        if (fails) throw Object.assign(new Error("gone"), { code: "ECONNRESET" });
        return { at: new Date() };
      },
    });
    const dashboard = open({ role: "view" }, { stint });
    expect((await request(dashboard, "/api/stats")).status).toBe(503);
    fails = false;
    expect((await request(dashboard, "/api/stats")).status).toBe(200);
  });
});

test("events, requests and scrapes share one query", async () => {
  const stint = fakeStint({ stats: { byKind: [], arrivals: [] } });
  const dashboard = open({ role: "view" }, { stint });
  const responses = await Promise.all(
    ["/api/events", "/api/health", "/metrics", "/api/health"].map(
      async (path) => await request(dashboard, path),
    ),
  );
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(stint.calls.filter(({ name }) => name === "health")).toHaveLength(1);
});

test.each([
  { why: "something changes", before: 2_000, took: 5, changed: true, pause: 2_000 },
  { why: "nothing changes", before: 2_000, took: 5, changed: false, pause: 3_000 },
  { why: "nothing changes for long", before: 4_900, took: 5, changed: false, pause: 5_000 },
  { why: "something changes again", before: 5_000, took: 5, changed: true, pause: 2_000 },
  { why: "a look takes 60 ms", before: 2_000, took: 60, changed: true, pause: 3_000 },
  { why: "a look takes a second", before: 2_000, took: 1_000, changed: true, pause: 5_000 },
])("the next query comes after $pause ms when $why", ({ before, took, changed, pause }) => {
  expect(nextPauseMs({ leastMs: 2_000, beforeMs: before, tookMs: took, changed })).toBe(pause);
});
