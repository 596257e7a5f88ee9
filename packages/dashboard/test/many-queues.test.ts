/** 500 queues: responses stay small, and the database gets few queries. */
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { Health } from "stint/inspect";
import { Events } from "#dashboard/events.js";
import { HealthStream } from "../ui/health-stream.ts";
import { fillQueues } from "../../stint/test/support/fill-queues.ts";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { browserHeaders, open, origin } from "./support/request.ts";
import { emptyHealth, fakeStint } from "./support/fake.ts";
import { listen, raw } from "./support/listen.ts";

/** Busy for half an hour, up to the last complete minute. */
function healthOf(queues: number): Health {
  const recent = Array.from({ length: 30 }, (_, n) => ({
    at: new Date(Date.parse("2026-01-01T00:00:00Z") - (29 - n) * 60_000),
    arrived: n,
    ended: n,
    ready: 0,
  }));
  const none = { p50: null, p95: 12.5, p99: null };
  const rates = { arrived: 1, claimed: 1, ended: 1, succeeded: 1, failed: 0, retried: 0, dead: 0 };
  return {
    ...emptyHealth,
    queues: Array.from({ length: queues }, (_, n) => ({
      queue: `tenant-${n}`,
      depth: emptyHealth.total,
      oldestReadyMs: null,
      targetMs: 60_000,
      targetFrom: { source: "default", setFor: null } as const,
      paused: null,
      breachInMs: null,
      rates,
      drainMs: 0,
      retryShare: null,
      oldestDeadMs: null,
      wait: none,
      run: none,
      slots: { busy: 0, total: 4, ahead: 0 },
      workers: 1,
      recent,
    })),
  };
}

/** Collects events until there are `count` of them. */
async function eventsOf(stream: ReadableStream<Uint8Array>, count: number): Promise<string[]> {
  const reader = stream.getReader();
  let text = "";
  const found = (): string[] => text.split("\n\n").filter((part) => part.startsWith("event: health"));
  while (found().length < count || !text.endsWith("\n\n")) {
    const { done, value } = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
  }
  await reader.cancel();
  return found();
}

const dataOf = (event: string | undefined): string => event?.split("data: ")[1] ?? "";

test("after a first full event, events hold only changes, and add up to the same", async () => {
  const first = healthOf(500);
  const second: Health = {
    ...first,
    at: new Date("2026-01-01T00:00:02Z"),
    total: { ...first.total, ready: 1 },
    queues: [
      { ...first.queues[499]!, oldestReadyMs: 5, queue: "tenant-499" },
      ...first.queues.slice(1, 499),
      { ...first.queues[1]!, queue: "new" },
    ],
  };
  const responses = [first, second, second];
  const events = new Events(async () => JSON.stringify(responses.shift() ?? second), {
    streams: 1,
    streamsPerUser: 1,
    refreshMs: 2_000,
  });
  const [whole, change, idle] = await eventsOf(events.open("ada")!, 3);
  events.close();

  expect(whole).toMatch(/^event: health\n/);
  expect(change).toMatch(/^event: health-change\n/);
  expect(whole!.length).toBeLessThan(500_000);
  expect(JSON.parse(dataOf(idle))).toEqual({ queues: [] });
  expect(JSON.parse(dataOf(change))).toMatchObject({
    total: { ready: 1 },
    queues: [{ queue: "tenant-499", oldestReadyMs: 5 }, { queue: "new" }],
    gone: ["tenant-0"],
  });

  const stream = new HealthStream();
  expect(stream.change(dataOf(change))).toBeUndefined();
  expect(stream.begin(dataOf(whole))).toEqual(JSON.parse(JSON.stringify(first)));
  expect(stream.change(dataOf(change))).toEqual(JSON.parse(JSON.stringify(second)));
  expect(stream.change(dataOf(idle))).toEqual(JSON.parse(JSON.stringify(second)));
});

test("an idle queue is not sent again when a minute passes", async () => {
  const first = healthOf(3);
  const idle = first.queues.map((queue) => ({
    ...queue,
    recent: queue.recent.map(({ at }) => ({ at, arrived: 0, ended: 0, ready: 0 })),
  }));
  const later = idle.map((queue) => ({
    ...queue,
    recent: queue.recent.map((minute) => ({ ...minute, at: new Date(minute.at.getTime() + 60_000) })),
  }));
  const responses = [
    { ...first, queues: idle },
    { ...first, at: new Date("2026-01-01T00:01:00Z"), queues: later },
  ];
  const events = new Events(async () => JSON.stringify(responses.shift() ?? responses), {
    streams: 1,
    streamsPerUser: 1,
    refreshMs: 2_000,
  });
  const [whole, change] = await eventsOf(events.open("ada")!, 2);
  events.close();
  expect(JSON.parse(dataOf(change))).toEqual({ at: "2026-01-01T00:01:00.000Z", queues: [] });
  const stream = new HealthStream();
  stream.begin(dataOf(whole));
  expect(stream.change(dataOf(change))?.queues).toEqual(JSON.parse(JSON.stringify(later)));
});

test("JSON, metrics and events are compressed exactly for clients that accept it", async () => {
  const fresh = await freshSchema();
  await fillQueues(fresh, 500);
  const dashboard = open({ role: "view" }, { stint: fresh.client() });
  const request = async (path: string, encoding: string): Promise<Response> =>
    await dashboard.fetch(
      new Request(`${origin}${path}`, { headers: { ...browserHeaders, "accept-encoding": encoding } }),
    );

  const plain = await request("/api/health", "br;q=1, gzip;q=0");
  expect(plain.headers.get("content-encoding")).toBeNull();
  const zipped = await request("/api/health", "gzip, br");
  expect(zipped.headers.get("content-encoding")).toBe("gzip");
  expect(zipped.headers.get("vary")).toContain("accept-encoding");
  const bytes = Buffer.from(await zipped.arrayBuffer());
  expect((JSON.parse(gunzipSync(bytes).toString()) as Health).queues).toHaveLength(500);
  expect(bytes.byteLength).toBeLessThan((await plain.arrayBuffer()).byteLength / 5);
  expect((await request("/metrics", "gzip")).headers.get("content-encoding")).toBe("gzip");
  expect((await request("/api/me", "gzip")).headers.get("content-encoding")).toBeNull();

  // Over a real connection, each event arrives when it is sent, not with the next one.
  const port = await listen((req, res) => dashboard.node(req, res));
  const stop = new AbortController();
  const stream = await fetch(`http://127.0.0.1:${port}/api/events`, {
    signal: stop.signal,
    headers: { "accept-encoding": "gzip" },
  });
  expect(stream.headers.get("content-encoding")).toBe("gzip");
  const [whole] = await eventsOf(stream.body!, 1);
  expect((JSON.parse(dataOf(whole)) as Health).queues).toHaveLength(500);
  stop.abort();
  expect((await raw(port, "/api/me")).status).toBe(200);
}, 60_000);

test("a reader of a compressed stream may leave at any moment", async () => {
  const dashboard = open({ role: "view" }, { stint: fakeStint({ health: healthOf(500) }) });
  const port = await listen((req, res) => dashboard.node(req, res));
  for (let round = 0; round < 20; round++) {
    const stop = new AbortController();
    const { body, headers } = await fetch(`http://127.0.0.1:${port}/api/events`, { signal: stop.signal });
    expect(headers.get("content-encoding")).toBe("gzip");
    const first = body!.getReader().read();
    if (round % 2 === 0) await first;
    stop.abort();
    await first.catch(() => undefined);
  }
  expect((await raw(port, "/api/me")).status).toBe(200);
  // A closing dashboard ends the stream, and the compressed data can be read to its end.
  const last = await fetch(`http://127.0.0.1:${port}/api/events`);
  await dashboard.close();
  expect(await last.text()).toContain("retry: 3000");
});
