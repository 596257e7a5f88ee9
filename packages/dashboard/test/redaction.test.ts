/** A value that is redacted in one place must not be read, guessed or found in another. */
import { describe, expect, test } from "vitest";
import { defineJob, handle, typed, type Job } from "stint";
import type { JobDetail, JobPage } from "stint/inspect";
import { makeRedactor } from "#dashboard/redact.js";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { until } from "../../stint/test/support/until.ts";
import { request, open, post } from "./support/request.ts";
import { fakeDetail, fakeJob, fakeStint, jobId } from "./support/fake.ts";
import { everyState } from "./support/every-state.ts";

const card = "4111111111111111";

describe("on a real installation", () => {
  test("a value hidden in a payload is hidden in lists and in bulk samples", async () => {
    const { stint, ids } = await everyState();
    const dashboard = open({ role: "admin" }, { stint, redact: ["payload.card.number"] });

    const list = await request(dashboard, "/api/jobs");
    const sample = await post(dashboard, "/api/operations/preview", {
      action: "replay",
      filter: { state: ["dead"] },
    });
    expect([list.status, sample.status]).toEqual([200, 200]);
    expect(list.text + sample.text).not.toContain(card);
    const dead = (list.body as JobPage).jobs.find(({ id }) => id === ids.dead);
    expect(dead?.error?.message).toContain("card [redacted] was refused");
    expect((list.body as JobPage).jobs).toHaveLength(5);
  });

  test("a search in errors does not reveal hidden values without payload rights", async () => {
    const { stint } = await everyState();
    const options = { stint, redact: ["payload.card.number"] };
    const guess = card.slice(0, 5);
    const filter = { state: ["dead"], error: guess };
    const operator = open({ role: "operate" }, options);
    for (const response of [
      await request(operator, `/api/jobs?error=${guess}`),
      await request(operator, `/api/jobs/count?error=${guess}`),
      await post(operator, "/api/operations/preview", { action: "replay", filter }),
      await post(operator, "/api/operations", { action: "replay", filter, reason: "to see" }),
    ])
      expect([response.status, response.body]).toMatchObject([403, { error: { code: "NOT_ALLOWED" } }]);

    expect((await request(open({ role: "admin" }, options), "/api/jobs?error=refused")).status).toBe(200);
    expect((await request(open({ role: "view" }, { stint }), `/api/jobs?error=${guess}`)).status).toBe(200);
  });

  test("dead groups are redacted, and fingerprints are shown only to roles with search", async () => {
    const { stint, ids } = await everyState();
    const [plain, redacted, seeing] = [
      open({ role: "view" }, { stint }),
      open({ role: "operate" }, { stint, redact: ["payload.card.number"] }),
      open({ role: "admin" }, { stint, redact: ["error.message"] }),
    ];
    const groupsOf = async (dashboard: typeof plain): Promise<unknown> => {
      const { status, body, text } = await request(dashboard, "/api/dead/groups");
      expect(status).toBe(200);
      expect(text).not.toContain(card);
      return (body as { groups: unknown }).groups;
    };
    const group = { kind: "fail", count: 1, example: ids.dead };

    expect(await groupsOf(plain)).toMatchObject([
      {
        ...group,
        error: expect.stringContaining("card … was refused"),
        fingerprint: expect.stringMatching(/^[0-9a-f]{12}$/),
      },
    ]);
    expect(await groupsOf(redacted)).toMatchObject([
      { ...group, error: expect.stringContaining("card [redacted] was refused"), fingerprint: null },
    ]);
    expect(await groupsOf(seeing)).toMatchObject([
      { ...group, error: expect.stringContaining("[redacted]"), fingerprint: expect.any(String) },
    ]);
    const search = await request(redacted, "/api/jobs?fingerprint=0123456789ab");
    expect([search.status, search.body]).toMatchObject([403, { error: { code: "NOT_ALLOWED" } }]);
    expect((await request(seeing, "/api/jobs?fingerprint=0123456789ab")).status).toBe(200);
  });

  test("a hidden message stays hidden when shortened, on one line, or after another", async () => {
    const fresh = await freshSchema();
    const pay = defineJob("pay", { payload: typed<{ pin: string }>(), attempts: 1 });
    const stint = fresh.client({ jobs: [pay] });
    const words = Array.from({ length: 400 }, (_, index) => `word${index}`);
    const worker = stint.worker({
      pools: { default: 1 },
      handlers: [
        handle(pay, async ({ payload }) => {
          throw new Error(`patient ${payload.pin}\nhas  ${words.join(" ")}`);
        }),
      ],
    });
    await worker.start();
    try {
      const { id } = await stint.enqueue(pay, { pin: "998877" });
      await until(async () => (await stint.get(id))?.state === "dead", { message: "the job is dead" });
      const errors = ["error.message", "error.stack"];
      const dashboard = open({ role: "admin" }, { stint, redact: [...errors, "payload.pin"] });
      for (const path of [`/api/jobs/${id}`, "/api/jobs"]) {
        const { status, text } = await request(dashboard, path);
        expect(status).toBe(200);
        expect(text).not.toMatch(/patient|998877|word\d/);
        const viewer = open({ role: "view" }, { stint, redact: errors });
        expect((await request(viewer, path)).text).not.toMatch(/patient|998877|word\d/);
      }
      const { job, why } = (await request(dashboard, `/api/jobs/${id}`)).body as JobDetail;
      // The stack also starts with the class and the message. The longer of the two texts is redacted first.
      expect(job.reason).toMatch(/^failed 1 of 1 attempts: (Error: )?\[redacted\]$/);
      expect(why.summary).toContain("failed 1 of 1 attempts");
    } finally {
      await worker.stop();
    }
  });
});

test("the filter of an operation is shown only to roles that may search by it", async () => {
  const filter = { state: ["dead"], kind: "pay", error: card, fingerprint: "0123456789ab" };
  const operation = { id: jobId, action: "replay", filter };
  const stint = fakeStint({ operations: [operation], operation, abort: operation });
  const shown = async (role: "operate" | "admin", redact: string[]): Promise<unknown[]> => {
    const dashboard = open({ role }, { stint, redact });
    const responses = [
      await request(dashboard, "/api/operations"),
      await request(dashboard, `/api/operations/${jobId}`),
      await post(dashboard, `/api/operations/${jobId}/abort`, {}),
    ];
    return responses.map(({ body }) => ([body].flat()[0] as typeof operation).filter);
  };
  const less = { state: ["dead"], kind: "pay" };
  expect(await shown("operate", ["payload.card"])).toEqual([less, less, less]);
  expect(await shown("operate", [])).toEqual([filter, filter, filter]);
  expect(await shown("admin", ["payload.card"])).toEqual([filter, filter, filter]);
});

test("tenants, which may repeat hidden values, are shown only with payload rights", async () => {
  const stint = fakeStint({
    stats: { topTenants: [{ tenant: card, ended: 1, runMs: 1 }] },
    waitingTenants: { tenants: [{ tenant: card, ready: 1 }], of: { count: 1, capped: false } },
  });
  const shown = async (role: "view" | "admin", redact: string[]): Promise<unknown[]> => {
    const dashboard = open({ role }, { stint, redact });
    return [(await request(dashboard, "/api/stats")).body, (await request(dashboard, "/api/tenants")).body];
  };
  expect(await shown("view", ["payload.card"])).toEqual([
    { topTenants: [], hidden: true },
    { tenants: [], of: { count: 1, capped: false }, hidden: true },
  ]);
  for (const all of [
    await shown("admin", ["payload.card"]),
    await shown("view", []),
    await shown("view", ["error.stack"]),
  ])
    expect(all).toMatchObject([{ topTenants: [{ tenant: card }] }, { tenants: [{ tenant: card }] }]);
});

test("results of steps and payloads of signals are redacted, and hidden like payloads", async () => {
  const card = "4111-1111";
  const at = new Date(0);
  const detail = fakeDetail(
    {},
    {
      steps: [
        {
          seq: 1,
          name: `charge ${card}`,
          type: "step",
          state: "done",
          at,
          tookMs: 1,
          until: null,
          epoch: 1,
          result: { card },
        },
      ],
      progress: {
        fraction: 0.5,
        note: `card ${card}`,
        checkpoint: { card },
        checkpointAt: at,
        lines: [{ at, epoch: 1, text: `took ${card}` }],
        lineCount: 1,
        at,
      },
      signals: [{ id: jobId, name: "paid", payload: { card }, sentAt: at, sentBy: "ann" }],
    },
  );
  const seen = async (role: "admin" | "view", redact: string[]): Promise<string> => {
    const dashboard = open({ role }, { stint: fakeStint({ job: detail }), redact });
    return JSON.stringify((await request(dashboard, `/api/jobs/${jobId}`)).body);
  };

  expect(await seen("admin", [])).toContain(`{"card":"${card}"}`);
  expect(await seen("admin", ["*.card"])).not.toContain(card);
  expect(await seen("view", [])).not.toContain(`{"card"`);
});

const secret = 'pa"ss word\nof two lines';

function failedWith(message: string, job: Partial<Job> = {}): JobDetail {
  const error = { class: "E", message };
  return fakeDetail({
    payload: { password: secret },
    log: [{ epoch: 1, worker: null, startedAt: null, endedAt: new Date(0), outcome: "failed", error }],
    ...job,
  });
}

async function shown(detail: JobDetail, redact: string[] = ["*.password"]): Promise<JobDetail> {
  const dashboard = open({ role: "admin" }, { stint: fakeStint({ job: detail }), redact });
  const response = await request(dashboard, `/api/jobs/${jobId}`);
  expect(response.status).toBe(200);
  return response.body as JobDetail;
}

test.each([
  ["in JSON", `bad body ${JSON.stringify({ password: secret })}`, 'bad body {"password":"[redacted]"}'],
  ["in one line", 'login as pa"ss word of two lines', "login as [redacted]"],
  ["in an address", `GET /login?p=${encodeURIComponent(secret)}`, "GET /login?p=[redacted]"],
  ["cut off", `${"x".repeat(80)} pa"ss wo`, `${"x".repeat(80)} [redacted]`],
  ["cut off with a mark", 'it said pa"ss wo… and so on', "it said [redacted]… and so on"],
])("a hidden text is recognised %s", async (_, message, clean) => {
  expect((await shown(failedWith(message))).job.log[0]?.error?.message).toBe(clean);
});

test("a hidden text is recognised as a key and as a number", async () => {
  const detail = fakeDetail({
    payload: { password: 123456 },
    result: { by: { 123456: 1 }, of: 123456, n: 12 },
  });
  expect((await shown(detail)).job.result).toEqual({ by: { "[redacted]": 1 }, of: "[redacted]", n: 12 });
});

test("a payload cannot hide a job's id, state and kind", async () => {
  const detail = failedWith("it is dead", { payload: { password: ["dead", "0000", "work", "failed"] } });
  expect((await shown(detail)).job).toMatchObject({
    id: jobId,
    state: "dead",
    kind: "work",
    log: [{ outcome: "failed", error: { message: "it is [redacted]" } }],
  });
});

test("a job made of secrets takes little time, and shows no text", async () => {
  const strings = Array.from({ length: 60_000 }, (_, index) => `aaaa${index}`);
  const many = failedWith(`aaaa${"aaaa1".repeat(1_600)}`, { payload: { password: strings, note: strings } });
  const long = failedWith("a".repeat(8_000), {
    payload: { password: Array.from({ length: 900 }, (_, index) => `${"a".repeat(7_000)}${index}`) },
  });
  for (const detail of [many, long]) {
    const began = process.cpuUsage();
    const { job } = await shown(detail);
    expect(process.cpuUsage(began).user).toBeLessThan(4_000_000);
    expect(job.log[0]?.error?.message).toBe("[redacted]");
  }
});

test("a path of many stars through nested lists takes little time", () => {
  let nested: unknown = [{ x: 1 }];
  for (let level = 0; level < 60; level++) nested = [nested];
  const began = process.cpuUsage();
  makeRedactor([`payload.${"*.".repeat(12)}x`]).value("payload", nested);
  expect(process.cpuUsage(began).user).toBeLessThan(2_000_000);
});

test("a star after the first one matches any key", () => {
  const value = { a: { b: { token: "t" } }, token: "u" };
  expect(makeRedactor(["*.*.token"]).value("payload", value)).toEqual({
    a: { b: { token: "[redacted]" } },
    token: "u",
  });
});

test.each(["card.number", "job.payload.card", "log.error"])(
  "the path %s, which would hide nothing, is refused",
  (path) => {
    expect(() => makeRedactor([path])).toThrow("createDashboard.redact");
  },
);

test("a job pruned meanwhile shows nothing that could have been hidden", async () => {
  const row = { ...fakeJob(), key: card, reason: card, error: { name: "E", message: card } };
  const stint = fakeStint({ jobs: { jobs: [row], next: null, partial: false }, get: () => undefined });
  const { text } = await request(open({ role: "admin" }, { stint, redact: ["*.card"] }), "/api/jobs");
  expect(text).not.toContain(card);
});
