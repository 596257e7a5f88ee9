/** A role that may not see payloads cannot test guesses about a redacted value, by any route and any filter. */
import { expect, test } from "vitest";
import { defineJob, typed } from "stint";
import { jobFilterKeys, type JobPage } from "stint/inspect";
import { routes } from "#dashboard/routes/index.js";
import { freshSchema } from "../../stint/test/support/fresh.ts";
import { request, open, post, type TestResponse } from "./support/request.ts";
import { fakeJob, fakeStint, jobId } from "./support/fake.ts";

const card = "4111111111111111";
const redact = ["payload.card"];

const samples: Record<(typeof jobFilterKeys)[number], string> = {
  state: "dead",
  kind: "pay",
  queue: "default",
  tenant: card,
  key: card,
  tag: card,
  error: card,
  fingerprint: "0123456789ab",
  since: "2026-01-01T00:00:00Z",
  until: "2026-01-02T00:00:00Z",
};
/** Kinds, queues, states and times are shown to every role. */
const shownToAll = ["state", "kind", "queue", "since", "until"];

/** Every route that takes a filter, and how to send one to it. */
const filtering = routes.flatMap((route) => {
  // These filter schedules, whose names and states are shown to every role.
  if (route.path.startsWith("schedules")) return [];
  const keys = jobFilterKeys.filter((key) => route.query?.includes(key) === true);
  if (keys.length > 0)
    return [
      {
        name: `${route.method} ${route.path}`,
        keys,
        send: async (
          to: ReturnType<typeof open>,
          key: (typeof jobFilterKeys)[number],
        ): Promise<TestResponse> =>
          await request(to, `/api/${route.path}?${key}=${encodeURIComponent(samples[key])}`),
      },
    ];
  if (route.body?.includes("filter") !== true) return [];
  return [
    {
      name: `${route.method} ${route.path}`,
      keys: [...jobFilterKeys],
      send: async (to: ReturnType<typeof open>, key: (typeof jobFilterKeys)[number]): Promise<TestResponse> =>
        await post(to, `/api/${route.path}`, {
          action: "replay",
          filter: { [key]: samples[key] },
          ...(route.body?.includes("reason") === true ? { reason: "to see" } : {}),
        }),
    },
  ];
});

test("the routes that take a filter are listed", () => {
  expect(filtering.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      "GET jobs",
      "GET jobs/count",
      "GET dead/groups",
      "POST operations/preview",
      "POST operations",
    ]),
  );
});

const ways = filtering.flatMap(({ name, keys, send }) => keys.map((key) => ({ name, key, send })));

test.each(ways.filter(({ key }) => !shownToAll.includes(key)))(
  "$name by $key: a guess at a redacted value is refused",
  async ({ key, send }) => {
    const stint = fakeStint();
    const hidden = await send(open({ role: "operate" }, { stint, redact }), key);
    expect([hidden.status, hidden.body]).toMatchObject([403, { error: { code: "NOT_ALLOWED" } }]);
    expect(hidden.text).toContain("payloads");
    expect(stint.calls).toEqual([]);
  },
);

test.each(ways)("$name by $key: open to those who may see the value", async ({ key, send }) => {
  const stint = fakeStint();
  expect((await send(open({ role: "admin" }, { stint, redact }), key)).status).toBeLessThan(300);
  expect((await send(open({ role: "operate" }, { stint }), key)).status).toBeLessThan(300);
});

test.each(ways.filter(({ key }) => shownToAll.includes(key)))(
  "$name by $key: open to every role",
  async ({ key, send }) => {
    expect((await send(open({ role: "operate" }, { redact }), key)).status).toBeLessThan(300);
  },
);

test("a redacted key, tag or tenant is not found without payload rights", async () => {
  const fresh = await freshSchema();
  const pay = defineJob("pay", { payload: typed<{ card: string }>() });
  const stint = fresh.client({ jobs: [pay] });
  await stint.enqueue(pay, { card }, { key: `pay:${card}`, tenant: card, tags: [card] });

  const viewer = open({ role: "view" }, { stint, redact });
  const list = await request(viewer, "/api/jobs");
  expect((list.body as JobPage).jobs).toMatchObject([
    { key: "pay:[redacted]", tenant: "[redacted]", tags: ["[redacted]"] },
  ]);
  const wrong = "4000000000000000";
  for (const [name, right, other] of [
    ["key", `pay:${card}`, `pay:${wrong}`],
    ["tenant", card, wrong],
    ["tag", card, wrong],
  ] as const)
    for (const path of ["jobs", "jobs/count"]) {
      const hit = await request(viewer, `/api/${path}?${name}=${right}`);
      const miss = await request(viewer, `/api/${path}?${name}=${other}`);
      expect(hit.status).toBe(403);
      expect(hit.text).toBe(miss.text);
    }
  const admin = open({ role: "admin" }, { stint, redact });
  expect(((await request(admin, `/api/jobs?key=pay:${card}`)).body as JobPage).jobs).toHaveLength(1);
});

test("the filter of a bulk operation is shown without any redacted value", async () => {
  const filter = { ...samples, state: ["dead"] };
  const operation = { id: jobId, action: "replay", filter };
  const stint = fakeStint({ operations: [operation], operation, abort: operation });
  const viewer = open({ role: "operate" }, { stint, redact });
  for (const response of [
    await request(viewer, "/api/operations"),
    await request(viewer, `/api/operations/${jobId}`),
    await post(viewer, `/api/operations/${jobId}/abort`, {}),
  ]) {
    expect(response.status).toBe(200);
    const shown = [response.body].flat()[0] as { filter: object };
    expect(Object.keys(shown.filter).sort()).toEqual([...shownToAll].sort());
    expect(response.text).not.toContain(card);
  }
});

test("dead jobs that differ only by a redacted value are one group", async () => {
  const group = (example: string, count: number, hour: number) => ({
    kind: "pay",
    fingerprint: `00000000000${String(hour)}`,
    error: "Error: x",
    count,
    newest: new Date(Date.UTC(2026, 0, 1, hour)),
    oldest: new Date(Date.UTC(2026, 0, 1, hour - 1)),
    example,
  });
  const ids = [1, 2, 3].map((n) => jobId.replace(/1$/, String(n)));
  const cards = ["alpha-card", "bravo-card", "other"];
  const stint = fakeStint({
    deadGroups: {
      groups: ids.map((id, at) => group(id, 9 - 4 * at, at + 1)),
      others: 0,
      of: { count: 15, capped: false },
    },
    get: (id: string) => {
      const own = cards[ids.indexOf(id)] ?? "";
      return fakeJob({ id, payload: { card: own }, reason: own === "other" ? "no card" : `card ${own}` });
    },
  });
  const viewer = await request(open({ role: "view" }, { stint, redact }), "/api/dead/groups");
  expect((viewer.body as { groups: unknown }).groups).toMatchObject([
    {
      error: "card [redacted]",
      count: 14,
      fingerprint: null,
      newest: "2026-01-01T02:00:00.000Z",
      oldest: "2026-01-01T00:00:00.000Z",
      example: ids[1],
    },
    { error: "no card", count: 1, fingerprint: null },
  ]);
  const admin = await request(open({ role: "admin" }, { stint, redact }), "/api/dead/groups");
  expect((admin.body as { groups: unknown[] }).groups).toHaveLength(3);
});

test("the session lists the filters that the role may use", async () => {
  const stint = fakeStint();
  const filters = async (role: "view" | "admin", hide: string[]): Promise<unknown> =>
    ((await request(open({ role }, { stint, redact: hide }), "/api/me")).body as { filters: unknown })
      .filters;
  expect(await filters("view", redact)).toEqual(shownToAll);
  expect(await filters("admin", redact)).toEqual(jobFilterKeys);
  expect(await filters("view", [])).toEqual(jobFilterKeys);
});
