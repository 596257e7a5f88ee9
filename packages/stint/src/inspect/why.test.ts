import { expect, test } from "vitest";
import { aJob } from "../../test/support/a-job.ts";
import type { Attempt, Job } from "../model/job.ts";
import { parkReasons, parkRules } from "../model/park-reasons.ts";
import type { NearWorker } from "../sql/explain-job.ts";
import type { Facts } from "./findings.ts";
import { explain } from "./why.ts";

const at = new Date("2026-03-01T12:00:00Z");
const from = (ms: number): Date => new Date(at.getTime() + ms);
const minute = 60_000;
const id = "019a8a2c-1f00-7000-8000-0123456789ab";

const ready: Job = { ...aJob(from(-minute)), runAt: from(-5_000) };

const running: Partial<Job> = {
  state: "running",
  worker: "w1",
  attempts: 2,
  claimedAt: from(-minute),
  leaseUntil: from(20_000),
};

function worker(own: Partial<NearWorker> = {}): NearWorker {
  return {
    id: "w1",
    slots: 4,
    held: 0,
    servesKind: true,
    draining: false,
    asleep: false,
    heartbeatAgeMs: 1_000,
    ...own,
  };
}

function facts(job: Partial<Job>, own: Partial<Facts> & Partial<Facts["around"]> = {}): Facts {
  const {
    workers = [worker()],
    ahead = 0,
    suspects = 0,
    pauses = [],
    places = [],
    defers = null,
    ...rest
  } = own;
  return {
    schema: "stint",
    job: { ...ready, ...job },
    at,
    timeoutMs: null,
    maxCrashes: null,
    audit: [],
    p95Ms: null,
    around: { workers, ahead, suspects, pauses, places, defers },
    ...rest,
  };
}

const pause = { reason: "the provider is down", pausedBy: "ada", pausedMs: 60_000, leftMs: null } as const;

test("a ready job whose queue is paused waits for a resume", () => {
  const pauses = [{ ...pause, scope: "queue", name: "ma*" }] as const;
  expect(words(facts({}, { pauses }))[1]).toBe(
    "! Its queue is paused (ma*) since 1 min by ada, until it is resumed: the provider is down",
  );
});

test("a job of a paused tenant shows by whom it is paused, and for how long", () => {
  const pauses = [{ ...pause, scope: "tenant", name: "acme", leftMs: 120_000 }] as const;
  const [summary, first] = words(facts({ state: "parked", parkReason: "paused" }, { pauses }));
  expect(summary).toBe("It is parked: paused.");
  expect(first).toBe(
    "! Its tenant is paused (acme) since 1 min by ada, for another 2 min: the provider is down",
  );
});

test("a job under a full limit names the key, the jobs before it and the holders", () => {
  const places = [
    { key: "key:account=42", max: 2, holds: false, held: 2, ahead: 3, holders: [{ id, state: "running" }] },
    { key: "kind:charge", max: 9, holds: true, held: 1, ahead: 0, holders: [] },
  ] as const;
  expect(words(facts({ state: "parked", parkReason: "limit" }, { places })).slice(1, 3)).toEqual([
    "! It waits for a place of key:account=42: 2 of 2 are in use. 3 jobs are before it.",
    `Job ${id} holds a place: running.`,
  ]);
});

test("a job behind a dead one of an ordered key shows how to let it pass", () => {
  const places = [
    { key: "order:charge=42", max: 1, holds: false, held: 1, ahead: 0, holders: [{ id, state: "dead" }] },
  ] as const;
  const { findings } = explain(facts({ state: "parked", parkReason: "limit" }, { places }));
  expect(findings[0]?.text).toBe("It waits for its turn of order:charge=42: another job has it.");
  expect(findings[0]?.advice).toContain(`Job ${id} is dead and blocks the key`);
  expect(findings[0]?.advice).toContain("limits pass");
});

test("a job that has not run shows that its queue defers new jobs when full", () => {
  const later = { state: "scheduled", runAt: from(minute) } as const;
  const text =
    "Queue default defers new jobs while it is full (admission of de*), so admission may have chosen this time.";
  expect(words(facts({ ...later, queue: "default" }, { defers: "de*" }))).toContain(text);
  expect(words(facts({ ...later, queue: "default", epoch: 1 }, { defers: "de*" }))).not.toContain(text);
});

test("a waiting job shows when it expires", () => {
  const expiresAt = from(2 * minute);
  const text = `It expires in 2 min, at ${expiresAt.toISOString()}: it is cancelled then if it has not started.`;
  for (const job of [
    {},
    { state: "scheduled", runAt: from(minute) },
    { state: "retrying", runAt: from(minute) },
    { state: "parked", parkReason: "review" },
  ] as const)
    expect(words(facts({ ...job, expiresAt }))).toContain(text);
  expect(words(facts({ expiresAt: from(-1_000) }))).toContain(
    "! It expired 1 s ago: a worker cancels it at any moment.",
  );
});

/** The summary, then the findings, those that block with a mark. */
function words(given: Facts): string[] {
  const { summary, findings } = explain(given);
  return [summary, ...findings.map((one) => `${one.blocks ? "! " : ""}${one.text}`)];
}

const advice = (given: Facts): string =>
  explain(given)
    .findings.map((one) => one.advice ?? "")
    .join("\n");

const failed: Attempt = {
  epoch: 1,
  worker: "w1",
  startedAt: from(-minute),
  endedAt: from(-minute),
  outcome: "failed",
  error: { class: "TypeError", message: "boom" },
};

test("a scheduled job waits for its time, and can be run now", () => {
  const given = facts({ state: "scheduled", runAt: from(90 * minute) });

  expect(words(given)).toEqual([
    "It is scheduled until 2026-03-01T13:30:00.000Z (in 1 h 30 min).",
    "! Its time is 1 h 30 min away.",
  ]);
  expect(advice(given)).toContain(`\`npx stint jobs run-now ${id}\``);
});

test("a snoozed job is explained as snoozed", () => {
  const snoozed: Attempt = { ...failed, outcome: "snoozed" };
  expect(words(facts({ state: "scheduled", runAt: from(minute), log: [snoozed] }))[0]).toMatch(
    /^It is snoozed until/,
  );
});

test("a due job that was not promoted needs a worker", () => {
  const late = facts({ state: "scheduled", runAt: from(-minute) });
  expect(words(late)[1]).toMatch(/^! It was due 1 min ago and no worker has made it ready/);
  expect(advice(late)).toContain("Start a worker");
  expect(words(facts({ state: "retrying", runAt: from(-1_000) }))[1]).toBe(
    "! It is due and becomes ready at any moment.",
  );
});

test("a retrying job shows the failed attempt, its error and the next one", () => {
  const given = facts({
    state: "retrying",
    runAt: from(30_000),
    attempts: 3,
    maxAttempts: 10,
    log: [failed],
  });
  expect(words(given)).toEqual([
    "Attempt 3 of 10 failed with TypeError: boom; the next is due at 2026-03-01T12:00:30.000Z (in 30 s).",
    "! Its time is 30 s away.",
  ]);
  expect(words(facts({ state: "retrying", attempts: 3, runAt: from(30_000) }))[0]).toMatch(
    /^Attempt 3 failed; the next/,
  );
});

const unserved: [string, NearWorker[], string, string][] = [
  ["no worker", [], "! No worker serves queue mail.", "npx stint worker"],
  [
    "the queue without the kind",
    [worker({ servesKind: false }), worker({ servesKind: false })],
    "! 2 workers serve queue mail, but none has a handler for send.",
    "Deploy a worker with a handler for send",
  ],
  [
    "the kind without the queue",
    [worker({ slots: null })],
    "! No worker serves queue mail, though 1 has a handler for send.",
    "Add mail to their pools",
  ],
  [
    "each by another",
    [worker({ slots: null }), worker({ servesKind: false })],
    "! Some workers serve queue mail and others have a handler for send, but none does both.",
    "Give the workers with the handler a pool for mail",
  ],
  [
    "only by those that drain",
    [worker({ draining: true })],
    "! The only worker that serves queue mail and kind send is draining.",
    "Start a worker",
  ],
  [
    "only by unresponsive workers",
    [worker({ heartbeatAgeMs: 61_000 })],
    "! The only worker that serves queue mail and kind send is unresponsive.",
    "Start a worker",
  ],
  [
    "by some that drain and some that are unresponsive",
    [worker({ heartbeatAgeMs: 61_000 }), worker({ draining: true })],
    "! All 2 workers that serve queue mail and kind send are draining or unresponsive.",
    "Start a worker",
  ],
];

test.each(unserved)("a ready job is served by %s", (_, workers, text, what) => {
  const given = facts({}, { workers });
  expect(words(given)).toEqual([`It has been ready for 5 s. ${text.slice(2)}`, text]);
  expect(advice(given)).toContain(what);
});

test("a ready job waits while all slots are busy and others come first", () => {
  expect(words(facts({}, { workers: [worker({ held: 4 }), worker({ held: 9 })], ahead: 12 }))).toEqual([
    "It has been ready for 5 s. All 8 slots for queue mail are busy.",
    "! All 8 slots for queue mail are busy.",
    "! 12 jobs are before it in queue mail: more urgent, or older.",
  ]);
  expect(words(facts({}, { ahead: 1_001 }))[1]).toBe(
    "! More than 1000 jobs are before it in queue mail: more urgent, or older.",
  );
});

test("a few jobs ahead and free slots are no cause of a wait", () => {
  expect(words(facts({}, { ahead: 1 })).slice(1)).toEqual([
    "1 job is before it in queue mail: more urgent, or older.",
    "1 worker serves it and has free slots: it is claimed at any moment.",
  ]);
});

test("a ready job with free slots is claimed at any moment, unless it has waited long", () => {
  expect(words(facts({}))[1]).toBe("1 worker serves it and has free slots: it is claimed at any moment.");
  const long = facts({ runAt: from(-minute) });
  expect(words(long)[1]).toBe("1 worker serves it and has free slots, and yet it waits.");
  expect(advice(long)).toContain("Look at their logs");
});

test("a job waits for sleeping workers only if no wake reached them", () => {
  const workers = [worker({ asleep: true, heartbeatAgeMs: 600_000 })];
  expect(words(facts({}, { workers }))[1]).toMatch(/^The workers that could take it are asleep; a wake/);
  const long = facts({ runAt: from(-minute) }, { workers });
  expect(words(long)).toEqual([
    "It has been ready for 1 min. Every worker that could take it is asleep, and no wake has reached one.",
    "! Every worker that could take it is asleep, and no wake has reached one.",
  ]);
});

test("a running job with a live worker is fine", () => {
  expect(words(facts(running))).toEqual([
    "Running on w1 for 1 min, attempt 2.",
    "Its worker is alive and holds the lease for another 20 s, renewed while it runs.",
  ]);
});

test("a running job with an expired lease will be rescued", () => {
  const soon = facts({ ...running, leaseUntil: from(-2_000) });
  expect(words(soon)[1]).toMatch(/^! Its lease ran out 2 s ago: .* rescues it with its next check\.$/);
  expect(advice(soon)).toBe("");
  expect(advice(facts({ ...running, leaseUntil: from(-minute) }))).toContain("No worker has rescued it yet");
});

test("a running job with a gone, unresponsive or draining worker is explained", () => {
  expect(words(facts(running, { workers: [] }))[1]).toBe(
    "Its worker is no longer registered; when the lease runs out, in 20 s, it is rescued.",
  );
  expect(words(facts(running, { workers: [worker({ heartbeatAgeMs: 120_000 })] }))[1]).toBe(
    "Its worker has not reported for 2 min; when the lease runs out, in 20 s, it is rescued unless it is renewed.",
  );
  expect(words(facts(running, { workers: [worker({ draining: true })] }))[1]).toMatch(
    /^Its worker is draining/,
  );
});

test("a running job with a requested cancel shows by whom", () => {
  const audit = [{ at: from(-3_000), actor: "ann", action: "cancel", reason: "wrong order" }];
  const job = { ...running, cancelRequested: true };
  expect(words(facts(job, { audit }))[1]).toBe("ann requested a cancel 3 s ago: wrong order.");
  expect(words(facts(job))[1]).toBe("A cancel was requested.");
});

test("a job slower than its kind is slow, and one near its timeout is reported", () => {
  expect(words(facts(running, { p95Ms: 5_000 }))[1]).toBe("It is slow: p95 for send is 5 s.");
  expect(words(facts(running, { p95Ms: 50_000 }))[1]).toMatch(/^Its worker is alive/);
  expect(words(facts({ ...running, claimedAt: from(-900) }, { p95Ms: 10 }))[1]).toMatch(
    /^Its worker is alive/,
  );
  expect(words(facts(running, { timeoutMs: 80_000 }))[1]).toBe(
    "It is close to its timeout of 1 min 20 s, at which the attempt fails.",
  );
});

test("a quarantined job waits for an idle worker", () => {
  const given = facts(
    { state: "parked", parkReason: "quarantine", crashes: 2 },
    { maxCrashes: 3, suspects: 2 },
  );
  expect(words(given)).toEqual([
    "It is in quarantine: its worker died twice while running it (at most 3 are allowed).",
    "! It runs next when a worker is idle, alone on it, so that another crash harms no other job.",
    "! 2 jobs are in quarantine before it.",
    "If the worker dies again, the job is dead.",
  ]);
  expect(words(facts({ state: "parked", parkReason: "quarantine", crashes: 1 }, { workers: [] }))).toContain(
    "! No live worker serves queue mail and kind send.",
  );
});

test.each(parkReasons.filter((reason) => reason !== "quarantine"))(
  "a job parked for %s shows what lifts it",
  (parkReason) => {
    const given = facts({ state: "parked", parkReason, reason: "the amount looks wrong" });
    expect(words(given)).toEqual([
      `It is parked: ${parkReason}.`,
      "the amount looks wrong",
      `! ${parkRules[parkReason].why}`,
    ]);
    // Advice to lift a reason that `runNow` cannot lift would be refused.
    expect(advice(given).includes("run-now")).toBe(parkRules[parkReason].runNow);
  },
);

test("a job parked until a time shows the time", () => {
  const parkUntil = new Date(at.getTime() + 3_600_000);
  expect(words(facts({ state: "parked", parkReason: "review", parkUntil }))[0]).toMatch(
    /^It is parked: review until .+\.$/,
  );
});

test("a dead job shows its reason, last error and how to replay it", () => {
  const given = facts({
    state: "dead",
    reason: "attempts exhausted",
    attempts: 5,
    crashes: 1,
    finishedAt: from(-minute),
    log: [failed],
  });
  expect(words(given)).toEqual([
    "It died 1 min ago: attempts exhausted",
    "Its last error was TypeError: boom.",
    "! It spent 5 attempts and its worker died once. It won't be retried automatically.",
  ]);
  expect(advice(given)).toContain(`\`npx stint jobs replay ${id} --reason '…'\``);
});

test("a dead job shows its error once, and long errors are cut", () => {
  const job: Partial<Job> = {
    state: "dead",
    reason: "TypeError: boom",
    attempts: 1,
    finishedAt: at,
    log: [failed],
  };
  expect(words(facts(job))).toEqual([
    "It died 0 ms ago: TypeError: boom",
    "! It spent 1 attempt. It won't be retried automatically.",
  ]);
  const long: Attempt = { ...failed, error: { class: "Error", message: "x".repeat(5_000) } };
  expect(words(facts({ ...job, log: [long] }))[1]?.length).toBeLessThan(400);
});

test("a cancelled job shows by whom and why", () => {
  const audit = [{ at: from(-minute), actor: "ann", action: "cancel", reason: "withdrawn" }];
  const job: Partial<Job> = { state: "cancelled", finishedAt: from(-minute), reason: "withdrawn" };
  expect(words(facts(job, { audit }))[0]).toBe("It was cancelled by ann 1 min ago: withdrawn.");
  expect(words(facts(job))[0]).toBe("It was cancelled by its handler 1 min ago: withdrawn.");
  expect(advice(facts(job))).toContain("replay");
});

test("a succeeded job shows when and where it ran, and for how long", () => {
  const given = facts({
    state: "succeeded",
    worker: "w1",
    attempts: 1,
    claimedAt: from(-minute - 1_500),
    finishedAt: from(-minute),
  });
  expect(words(given)).toEqual(["It succeeded 1 min ago on w1 in 1.5 s, at attempt 1."]);
});

test("every advised command works on the schema of the job", () => {
  const schema = "billing";
  const idle = worker({ held: 4 });
  const given = [
    facts({ state: "scheduled", runAt: from(minute) }, { schema }),
    facts({ state: "retrying", runAt: from(-minute) }, { schema }),
    facts({}, { schema, workers: [] }),
    facts({}, { schema, workers: [idle] }),
    facts({ state: "parked", parkReason: "review" }, { schema }),
    facts({ state: "parked", parkReason: "quarantine" }, { schema }),
    facts({ state: "dead", finishedAt: at }, { schema }),
    facts({ state: "cancelled", finishedAt: at }, { schema }),
  ];
  for (const one of given) {
    const commands = [...advice(one).matchAll(/`([^`]*)`/g)].map((match) => match[1]);
    expect(commands).toHaveLength(1);
    expect(commands[0]).toMatch(/^npx stint [^`]* --schema billing$/);
  }
});
