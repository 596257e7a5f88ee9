import { expect, test } from "vitest";
import { sparkline, rate } from "#stint/cli/figures.js";
import { draw, drawOnce, type Frame } from "#stint/cli/top/draw.js";
import type { Snapshot } from "#stint/cli/top/snapshot.js";
import { firstView, press, type Key, type View } from "#stint/cli/top/view.js";
import type { QueueHealth } from "#stint/inspect/types.js";

const at = new Date("2027-01-31T12:00:00Z");
const none = { p50: null, p95: null, p99: null };
const rates = { arrived: 0, claimed: 0, ended: 0, succeeded: 0, failed: 0, retried: 0, dead: 0 };
const depth = { scheduled: 0, ready: 0, running: 0, retrying: 0, parked: 0, dead: 0 };

function queue(name: string, more: Partial<QueueHealth> = {}): QueueHealth {
  return {
    queue: name,
    depth,
    oldestReadyMs: null,
    targetMs: 60_000,
    targetFrom: { source: "default", setFor: null },
    paused: null,
    breachInMs: null,
    rates,
    drainMs: null,
    retryShare: null,
    oldestDeadMs: null,
    wait: none,
    run: none,
    slots: { busy: 0, total: 4, ahead: 0 },
    workers: 1,
    recent: [],
    ...more,
  };
}

const noDead = { groups: [], others: 0, of: { count: 0, capped: false } };

function snapshot(queues: readonly QueueHealth[], more: Partial<Snapshot> = {}): Snapshot {
  const health = { at, queues, total: depth, workers: 1, slow: 0, unserved: [] };
  return { health, kinds: [], slow: [], workers: [], dead: noDead, ...more };
}

const plain = { width: undefined, dye: (text: string) => text };
const about = { schema: "stint", problem: undefined };
const mail = queue("mail", {
  depth: { ...depth, ready: 112, running: 8, dead: 3 },
  oldestReadyMs: 75_000,
  breachInMs: 0,
  rates: { ...rates, arrived: 12.34, ended: 0.4 },
  drainMs: 280_000,
  retryShare: 0.25,
  slots: { busy: 8, total: 8, ahead: 0 },
  recent: [0, 1, 4, 8].map((ended) => ({ at, arrived: 0, ended, ready: 0 })),
});

function shown(data: Snapshot, view: Partial<View> = {}, columns = 200, rows = 24): Frame {
  const size = { columns, rows };
  return draw({ ...plain, width: columns }, data, { ...firstView, ...view }, size, about);
}

test("a queue is one row: lateness, age, depth, slots and rates", () => {
  const { lines } = shown(snapshot([mail, queue("ocr")]));

  expect(lines[2]).toMatch(
    /^ {3}QUEUE +LATE IN +OLDEST READY +READY +RUNNING +DEAD +SLOTS +ARRIVED +ENDED +ENDED, 30 MIN/,
  );
  expect(lines[3]).toMatch(
    /^> {2}mail +late +1 min 15 s of 1 min +112 +8 +3 +8\/8 +12\/s +0\.4\/s +▁▂▅█ +4 min 40 s +25 %/,
  );
  expect(lines[4]).toMatch(/^ {3}ocr +- +- +0 +0 +0 +0\/4 +0 +0 */);
});

test.each([
  [200, 24],
  [80, 24],
  [40, 10],
  [20, 5],
])("on %d × %d nothing exceeds the terminal", (columns, rows) => {
  const many = Array.from({ length: 60 }, (_, index) => queue(`queue-with-a-long-name-${index}`));

  const { lines } = shown(snapshot([mail, ...many]), {}, columns, rows);

  expect(lines.length).toBeLessThanOrEqual(rows);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
});

test("the selected row stays visible", () => {
  const many = Array.from({ length: 60 }, (_, index) => queue(`q${index}`));

  const { lines, rows } = shown(snapshot(many), { cursor: 59 }, 80, 12);

  expect(rows).toHaveLength(60);
  expect(lines.find((line) => line.startsWith(">"))).toMatch(/^> {2}q59 /);
  expect(shown(snapshot(many), { cursor: 5 }, 80, 24).lines[3]).toMatch(/^ {3}q0 /);
});

test("names from the database cannot send terminal escapes", () => {
  const evil = queue("\u001b[2J\u001b]0;owned\u0007mail\nforged");

  const { lines } = shown(snapshot([evil]));

  expect(lines.join("\n")).not.toContain("\u001b");
  expect(lines[3]).toMatch(/^> {2}mail forged /);
});

test("a filter keeps the rows that contain it, and reports when none does", () => {
  const data = snapshot([mail, queue("ocr"), queue("Mailbox")]);

  expect(shown(data, { filter: "MAIL" }).rows).toEqual(["mail", "Mailbox"]);
  expect(shown(data, { filter: "zz" }).lines.join("\n")).toContain("Nothing fits the filter.");
});

test("errors, a pause and unserved kinds are shown as text", () => {
  const unserved = [{ kind: "lost", queue: "q", oldestReadyMs: 1 }];
  const data = snapshot([mail]);
  const { lines } = draw(
    plain,
    { ...data, health: { ...data.health, unserved, slow: 2 } },
    { ...firstView, paused: true },
    { columns: 200, rows: 24 },
    { schema: "stint", problem: "the database is away" },
  );

  expect(lines[0]).toContain(" paused ");
  expect(lines[0]).toContain("2 slow, unserved: lost");
  expect(lines.join("\n")).toContain("Not fresh: the database is away");
});

test.each(["queues", "queue", "dead", "workers", "slow", "help"] as const)(
  "an empty screen %s draws",
  (screen) => {
    expect(shown(snapshot([]), { screen }).lines).toHaveLength(24);
  },
);

test("without a terminal the queues are printed in full", () => {
  const lines = drawOnce(plain, snapshot([mail, queue("ocr")]));

  expect(lines).toHaveLength(5);
  expect(lines[0]).toBe("1 worker, 8/12 slots busy, 0 ready, 0 running");
});

const deadGroup = {
  kind: "send-receipt-to-customer",
  fingerprint: "0123456789ab",
  error: "PaymentMissing: no payment p_42 in the ledger of 2027",
  count: 1_200,
  newest: new Date(Date.now() - 5_000),
  oldest: new Date(0),
  example: "019a8a2c-1f00-7000-8000-0123456789ab",
};
const slowJob = {
  id: "019a8a2c-1f00-7000-8000-0123456789ab",
  kind: "send-receipt-to-customer",
  queue: "mail",
  worker: "mail-7f9c6d-x2x9k-1",
  attempt: 1,
  runningMs: 60_000,
  p95Ms: 1_000,
  because: "beyond-normal",
  text: "It has been running for 1 min, and p95 is 1 s.",
} as const;
const worker = {
  id: "mail-7f9c6d-x2x9k-1",
  host: "worker-7f9c6d-x2x9k",
  pid: 4_711,
  version: "2026.11.3",
  pools: { mail: 8, default: 5 },
  kinds: ["send-receipt-to-customer", "send-digest"],
  startedAt: at,
  seenAt: at,
  listening: true,
  draining: false,
  asleep: false,
  busy: 9,
  slots: 13,
  waiting: 4,
  lagMs: 2,
  rssBytes: 184 * 1_048_576,
  heartbeatAgeMs: 900,
  unresponsive: false,
  behind: false,
};

test("at 80 × 24 dead groups keep kind and error, with the selected ids below", () => {
  const dead = { groups: [deadGroup], others: 0, of: { count: 1_200, capped: false } };
  const { lines } = shown(snapshot([], { dead }), { screen: "dead" }, 80, 24);

  const row = lines.find((line) => line.startsWith(">"));
  expect(row).toContain("send-receipt-to-customer");
  expect(row).toContain("PaymentMissing: no payment");
  expect(row).not.toContain("019a8a2c");
  expect(lines).toContain("FINGERPRINT 0123456789ab  ID 019a8a2c-1f00-7000-8000-0123456789ab");
});

test("at 80 × 24 slow jobs keep kind and reason instead of ids", () => {
  const { lines } = shown(snapshot([], { slow: [slowJob] }), { screen: "slow" }, 80, 24);

  const row = lines.find((line) => line.startsWith(">"));
  expect(row).toContain("send-receipt-to-customer");
  expect(row).toContain("It has been running for");
  expect(row).not.toContain("019a8a2c");
});

test.each(["queues", "queue", "dead", "workers", "slow", "help"] as const)(
  "screen %s is never wider than the terminal",
  (screen) => {
    const dead = { groups: [deadGroup], others: 3, of: { count: 10_000, capped: true } };
    const kinds = [
      {
        kind: "k".repeat(128),
        queue: "mail",
        depth,
        rates,
        wait: none,
        run: none,
        attemptsPerSuccess: 1,
        workers: 1,
        leaseAdvice: "a longer lease",
      },
    ];
    const names = { ...mail, queue: "q".repeat(128) };
    const data = snapshot([mail, names], { dead, kinds, slow: [slowJob], workers: [worker] });
    for (const columns of [20, 40, 80, 100, 200])
      for (const line of shown(data, { screen, queue: "mail" }, columns).lines)
        expect(line.length).toBeLessThanOrEqual(columns);
  },
);

test("prefetched jobs are shown beside the slots: never 14 of 10", () => {
  const busy = queue("mail", {
    depth: { ...depth, running: 14 },
    slots: { busy: 10, total: 10, ahead: 4 },
  });

  expect(shown(snapshot([busy])).lines[3]).toMatch(/^> {2}mail +- +- +0 +10 +0 +10\/10 \+4 /);
});

test("the current minute is not drawn, as it would look like a drop", () => {
  const minutes = [8, 8, 8, 1].map((ended, n) => ({
    at: new Date(at.getTime() - 190_000 + n * 60_000),
    arrived: 0,
    ended,
    ready: 0,
  }));

  expect(shown(snapshot([queue("mail", { recent: minutes })])).lines[3]).toContain(" ███ ");
});

const rows = ["mail", "ocr", "import"];
function keys(...pressed: readonly (string | Key)[]): View | undefined {
  return pressed.reduce<View | undefined>(
    (view, key) =>
      view &&
      press(view, typeof key === "string" ? { name: /\w/.test(key) ? key : undefined, sequence: key } : key, {
        rows,
      }),
    firstView,
  );
}

test("keys move, open, go back and quit", () => {
  expect(keys("j", "down", "down", "down")).toMatchObject({ cursor: 2 });
  expect(keys("k")).toMatchObject({ cursor: 0 });
  expect(keys("j", "return")).toMatchObject({ screen: "queue", queue: "ocr", cursor: 0 });
  expect(keys("j", "return", "escape")).toMatchObject({ screen: "queues", queue: undefined });
  expect(keys("d")).toMatchObject({ screen: "dead" });
  expect(keys("w")).toMatchObject({ screen: "workers" });
  expect(keys("s")).toMatchObject({ screen: "slow" });
  expect(keys("?")).toMatchObject({ screen: "help" });
  expect(keys("?", "?")).toMatchObject({ screen: "queues" });
  expect(keys("p")).toMatchObject({ paused: true });
  expect(keys("p", "p")).toMatchObject({ paused: false });
  expect(keys("q")).toBeUndefined();
  expect(keys({ name: "c", ctrl: true })).toBeUndefined();
});

test("while a filter is typed, letters are letters", () => {
  expect(keys("/", "q", "d")).toMatchObject({ typing: true, filter: "qd", screen: "queues" });
  expect(keys("/", "q", "backspace", "o", "return")).toMatchObject({ typing: false, filter: "o" });
  expect(keys("/", "q", "return", "escape")).toMatchObject({ filter: "", screen: "queues" });
  expect(keys("/", "q", "escape")).toMatchObject({ typing: false, filter: "" });
  expect(keys("/", "\u001b[31m")).toMatchObject({ filter: "" });
  expect(keys("/", { name: "c", ctrl: true })).toBeUndefined();
});

test("dead jobs are grouped by error, with the number searched if there are more", () => {
  const group = {
    kind: "mail",
    fingerprint: "0123456789ab",
    error: "Error: no payment …",
    count: 1_200,
    newest: new Date(0),
    oldest: new Date(0),
    example: "019a8a2c-1f00-7000-8000-0123456789ab",
  };
  const dead = { groups: [group], others: 7, of: { count: 10_000, capped: true } };
  const lines = (more: Partial<typeof dead>, schema: string): string =>
    draw(plain, snapshot([], { dead: { ...dead, ...more } }), { ...firstView, screen: "dead" }, size, {
      ...about,
      schema,
    }).lines.join("\n");
  const size = { columns: 200, rows: 24 };

  expect(lines({}, "stint")).toMatch(
    /^> +1,200 +mail +.* ago +019a8a2c-\S+ +0123456789ab +Error: no payment …$/m,
  );
  expect(lines({}, "stint")).toContain("7 more died of other errors. Of the newest 10,000 dead jobs.");
  expect(lines({ others: 0, of: { count: 1_200, capped: false } }, "stint")).not.toMatch(/newest|more died/);
  expect(lines({}, "billing")).toContain("Look: npx stint jobs show ID --schema billing");
  expect(lines({}, "billing")).toContain(
    "Again: npx stint dead replay --all --fingerprint FINGERPRINT --reason '…' --schema billing",
  );
});

test("without a live worker, the command that starts one is shown", () => {
  const view = { ...firstView, screen: "workers" as const };
  const { lines } = draw(
    plain,
    snapshot([]),
    view,
    { columns: 200, rows: 24 },
    { ...about, schema: "billing" },
  );

  expect(lines.join("\n")).toContain("Start one with npx stint worker --schema billing");
});

test("bars and rates are short and never round activity to nothing", () => {
  expect(sparkline([0, 0.001, 100], 10)).toBe("▁▂█");
  expect(sparkline([0, 0], 10)).toBe("▁▁");
  expect(sparkline([1, 2, 3, 4], 2)).toBe("▆█");
  expect([0, 0.01, 0.44, 12.3, 999.9, 3_400].map(rate)).toEqual([
    "0",
    "<0.1/s",
    "0.4/s",
    "12/s",
    "1.0k/s",
    "3.4k/s",
  ]);
});
