/** Controls on a real installation: live values, audited changes, roles, confirmation, hostile and redacted names. */
import { defineJob, handle, typed } from "stint";
import type { Controls } from "stint/inspect";
import { expect, test } from "vitest";
import { gate } from "../../stint/test/support/gate.ts";
import { until } from "../../stint/test/support/until.ts";
import { startWorker } from "../../stint/test/support/watch.ts";
import { open, post, request, type TestResponse } from "./support/request.ts";
import { hostileText } from "./support/every-state.ts";
import { installation } from "./support/installation.ts";

const charge = defineJob("charge", {
  payload: typed<{ account: string }>(),
  queue: "payments",
  limits: [{ name: "account", key: ({ account }) => account, max: 1 }],
});

const codeOf = ({ body }: TestResponse): string => (body as { error: { code: string } }).error.code;
const read = async (dashboard: ReturnType<typeof open>) =>
  (await request(dashboard, "/api/controls")).body as Controls & { hidden?: boolean };

test("pauses, limits and keys are shown with live values, and each change is audited", async () => {
  const { stint } = await installation({ jobs: [charge] });
  const held = gate();
  await startWorker(stint, {
    pools: { payments: 4 },
    handlers: [handle(charge, async () => await held.opened)],
  });
  for (let n = 0; n < 3; n++) await stint.enqueue(charge, { account: hostileText });
  const dashboard = open({ role: "operate", user: "ada" }, { stint });
  const key = `key:account=${hostileText}`;
  await until(async () => (await read(dashboard)).keys.some((one) => one.held === 1 && one.waiting === 2), {
    message: "one job runs and two wait",
  });
  expect((await read(dashboard)).keys).toMatchObject([{ key, max: 1, held: 1, waiting: 2 }]);

  const act = async (path: string, body: object) =>
    await post(dashboard, `/api/${path}`, { reason: "incident 12", ...body });
  expect((await act("limits/set", { name: "key:account", max: 2 })).body).toMatchObject({
    limit: { max: 2, declaredMax: 1, updatedBy: "ada" },
  });
  await until(async () => (await read(dashboard)).keys[0]?.held === 2, { message: "a second job runs" });
  expect((await act("pauses/pause", { scope: "queue", name: "payments", for: "2h" })).body).toEqual({});
  expect((await act("pauses/pause", { scope: "tenant", name: hostileText })).body).toEqual({});
  expect((await act("queues/set", { queue: "payments", admission: { maxDepth: 3 } })).body).toMatchObject({
    admission: { maxDepth: 3, policy: "reject" },
  });

  const shown = await read(dashboard);
  expect(shown).toMatchObject({
    pauses: [
      { scope: "queue", name: "payments", pausedBy: "ada", reason: "incident 12", until: expect.any(String) },
      { scope: "tenant", name: hostileText, until: null },
    ],
    limits: [{ name: "key:account", max: 2, declaredMax: 1 }],
    admission: [{ queue: "payments", setFor: "payments", source: "live", depth: 3, maxDepth: 3, full: true }],
  });
  expect(shown.changes.map(({ actor, action, subject }) => [actor, action, subject]).slice(0, 4)).toEqual([
    ["ada", "set-queue", "queue:payments"],
    ["ada", "pause", `tenant:${hostileText}`],
    ["ada", "pause", "queue:payments"],
    ["ada", "set-limit", "key:account"],
  ]);
  expect(shown.changes[3]?.change).toEqual({ max: { from: 1, to: 2 } });

  expect((await act("pauses/resume", { scope: "queue", name: "payments" })).body).toEqual({ resumed: true });
  expect((await act("pauses/resume", { scope: "queue", name: "payments" })).body).toEqual({ resumed: false });
  expect((await act("limits/set", { name: "key:account", max: null })).body).toMatchObject({
    limit: { max: 1 },
  });
  expect((await act("limits/pass", { key: "order:charge=42" })).body).toEqual({ job: null });
  held.open();
});

test("a change needs the role, a reason, and in production the name of the environment", async () => {
  const { stint } = await installation();
  const environment = { name: "live", production: true };
  const body = { scope: "queue", name: "emails", reason: "incident 12" };
  const viewer = await post(open({ role: "view" }, { stint }), "/api/pauses/pause", body);
  expect(viewer.status).toBe(403);
  const dashboard = open({ role: "operate" }, { stint, environment });
  const changes: [string, object][] = [
    ["pauses/pause", body],
    ["pauses/resume", body],
    ["limits/set", { name: "kind:charge", max: 1, reason: "x" }],
    ["limits/pass", { key: "order:charge=1", reason: "x" }],
    ["queues/set", { queue: "emails", admission: { maxDepth: 1 }, reason: "x" }],
  ];
  for (const [path, given] of changes) {
    const unconfirmed = await post(dashboard, `/api/${path}`, given);
    expect([path, unconfirmed.status, codeOf(unconfirmed)]).toEqual([path, 400, "CONFIRMATION_NEEDED"]);
    const silent = await post(dashboard, `/api/${path}`, { ...given, reason: "", confirm: "live" });
    expect([path, silent.status, silent.text]).toEqual([path, 400, expect.stringContaining("reason")]);
  }
  expect(await read(dashboard)).toMatchObject({ pauses: [], limits: [], settings: [], changes: [] });
  expect((await post(dashboard, "/api/pauses/pause", { ...body, confirm: "live" })).status).toBe(200);
  expect((await read(dashboard)).pauses).toHaveLength(1);
});

const bad: readonly (readonly [path: string, body: object, says: string])[] = [
  ["pauses/pause", { scope: "queu", name: "a" }, "queu"],
  ["pauses/pause", { scope: "__proto__", name: "a" }, "__proto__"],
  ["pauses/pause", { scope: "queue", name: "<b>" }, "queue"],
  ["pauses/pause", { scope: "queue", name: "" }, "name"],
  ["pauses/pause", { scope: "tenant", name: "a\0b" }, "name"],
  ["pauses/pause", { scope: "tenant", name: "x".repeat(600) }, "name"],
  ["pauses/pause", { scope: "tenant", name: { $gt: "" } }, "name"],
  ["pauses/pause", { scope: "queue", name: "a", for: "soon" }, "for"],
  ["pauses/pause", { scope: "queue", name: "a", until: "2020-01-01T00:00:00Z" }, "until"],
  ["pauses/pause", { scope: "queue", name: "a", for: "1h", until: "2090-01-01T00:00:00Z" }, "not both"],
  ["pauses/pause", { scope: "queue", name: "a", untill: "2090-01-01T00:00:00Z" }, "until"],
  ["limits/set", { name: "kind:charge", max: 0 }, "from 1 to 1000000"],
  ["limits/set", { name: "kind:charge", max: 1.5 }, "max"],
  ["limits/set", { name: "kind:charge", max: "5" }, "max"],
  ["limits/set", { name: "kind:charge" }, "max"],
  ["limits/set", { name: "charge", max: 1 }, "queue:NAME"],
  ["limits/pass", { key: "kind:charge" }, "ordered key"],
  ["queues/set", { queue: "a" }, "setting"],
  ["queues/set", { queue: "a b", targetAge: "1m" }, "queue"],
  ["queues/set", { queue: "a", targetAge: -1 }, "targetAge"],
  ["queues/set", { queue: "a", admission: { maxDepth: 0 } }, "maxDepth"],
  ["queues/set", { queue: "a", admission: { maxDept: 1 } }, "maxDepth"],
  ["queues/set", { queue: "a", admission: [] }, "admission"],
];

test("bad input is refused with the reason, and changes nothing", async () => {
  const { stint } = await installation();
  const dashboard = open({ role: "admin" }, { stint });
  for (const [path, body, says] of bad) {
    const refused = await post(dashboard, `/api/${path}`, { reason: "x", ...body });
    expect([path, body, refused.status, refused.text]).toEqual([
      path,
      body,
      400,
      expect.stringContaining(says),
    ]);
  }
  expect(await read(dashboard)).toMatchObject({ pauses: [], limits: [], settings: [], changes: [] });
});

test("tenants and keys are hidden from roles that may not see redacted values", async () => {
  const { stint } = await installation({ jobs: [charge] });
  const card = "4111111111111111";
  await stint.pauses.pause({ tenant: card }, { reason: "x" });
  await stint.pauses.pause({ key: card }, { reason: "x" });
  await stint.pauses.pause({ kind: "charge" }, { reason: "x" });
  await stint.limits.set(`key:account=${card}`, 2, { reason: "x" });
  await stint.limits.set("tenant:charge", 2, { reason: "x" });
  const redact = ["payload.account"];
  const viewer = open({ role: "operate" }, { stint, redact });
  const hidden = await request(viewer, "/api/controls");
  expect(hidden.text).not.toContain(card);
  expect(hidden.body).toMatchObject({
    hidden: true,
    pauses: [{ scope: "kind", name: "charge" }],
    limits: [{ name: "tenant:charge" }],
    changes: [{ subject: "tenant:charge" }, { subject: "kind:charge" }],
  });
  // Whether something was changed would confirm a guess.
  const guesses: [string, object][] = [
    ["pauses/resume", { scope: "tenant", name: card }],
    ["pauses/pause", { scope: "key", name: card }],
    ["limits/set", { name: `key:account=${card}`, max: null }],
    ["limits/pass", { key: `order:charge=${card}` }],
  ];
  for (const [path, body] of guesses) {
    const refused = await post(viewer, `/api/${path}`, { reason: "to see", ...body });
    expect([path, refused.status, codeOf(refused)]).toEqual([path, 403, "NOT_ALLOWED"]);
  }
  const allowed = { reason: "x", name: "tenant:charge", max: 3 };
  expect((await post(viewer, "/api/limits/set", allowed)).status).toBe(200);
  const admin = await request(open({ role: "admin" }, { stint, redact }), "/api/controls");
  expect(admin.text).toContain(card);
});
