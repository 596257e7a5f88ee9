/** The routes of schedules on a real installation: lists, previews, changes, access, hostile input. */
import { defineJob, defineSchedule, handle, typed } from "stint";
import { expect, test } from "vitest";
import { inLab } from "../../stint/test/support/lab.ts";
import { startWorker } from "../../stint/test/support/watch.ts";
import { request, open, post } from "./support/request.ts";
import { installation } from "./support/installation.ts";

const remind = defineJob("remind", { payload: typed<{ user: number; token?: string }>() });

const path = (route: string, query: Record<string, string>): string =>
  `/api/schedules/${route}?${new URLSearchParams(query)}`;

function codeOf({ body }: { readonly body: unknown }): unknown {
  return (body as { error?: { code?: unknown } } | undefined)?.error?.code;
}

type Listed = { readonly schedules: readonly { readonly name: string }[]; readonly next: string | null };
const names = ({ body }: { readonly body: unknown }): string[] =>
  (body as Listed).schedules.map(({ name }) => name);

test("many schedules are listed a page at a time, and searched by the server", async () => {
  const count = inLab ? 100_000 : 10_000;
  const { fresh, stint } = await installation({ jobs: [remind] });
  await stint.schedules.set("reminder/1", { cron: "0 9 * * *", job: remind, payload: { user: 1 } });
  await fresh.sql(`
    insert into stint.schedule (name, cron, zone, job, next_slot, due_at, updated_by)
    select 'reminder/' || n, cron, zone, job, next_slot, due_at, updated_by
    from stint.schedule, generate_series(2, ${count}) n`);
  await fresh.sql(
    `update stint.schedule set paused_at = now(), next_slot = null, due_at = null where name = 'reminder/7777'`,
  );
  const dashboard = open({ role: "view" }, { stint });

  const first = await request(dashboard, "/api/schedules?limit=2");
  expect(names(first)).toEqual(["reminder/1", "reminder/10"]);
  const { next } = first.body as Listed;
  expect(
    names(await request(dashboard, `/api/schedules?limit=1&after=${encodeURIComponent(next!)}`)),
  ).toEqual(["reminder/100"]);
  expect(names(await request(dashboard, "/api/schedules?search=R/9999"))).toHaveLength(inLab ? 11 : 1);
  expect(names(await request(dashboard, "/api/schedules?state=paused"))).toEqual(["reminder/7777"]);
  expect(names(await request(dashboard, "/api/schedules?owner=nobody"))).toEqual([]);
  expect((await request(dashboard, "/api/schedules/counts")).body).toEqual({
    active: count - 1,
    paused: 1,
    ended: 0,
    broken: 0,
  });
});

test("a schedule whose name has slashes is shown, paused, resumed, run and removed", async () => {
  const { stint } = await installation({ jobs: [remind] });
  const name = "eu/team:1/remind";
  const dashboard = open({ role: "admin", user: "ada" }, { stint });
  const added = await post(dashboard, "/api/schedules/add", {
    name,
    kind: "remind",
    payload: { user: 1 },
    cron: "0 9 * * *",
    zone: "Europe/Berlin",
    overlap: "skip",
    jitter: "",
    reason: "asked for",
  });
  expect(added.status).toBe(201);

  await post(dashboard, "/api/schedules/pause", { name, reason: "incident 12" });
  expect((await stint.schedules.get(name))?.state).toBe("paused");
  await post(dashboard, "/api/schedules/resume", { name });
  const run = await post(dashboard, "/api/schedules/run", { name, reason: "after the fix" });
  const id = (run.body as { id: string }).id;
  expect((await stint.get(id))?.payload).toEqual({ user: 1 });
  // Its overlap is "skip", and the job has not ended.
  const again = await post(dashboard, "/api/schedules/run", { name });
  expect([again.status, codeOf(again)]).toEqual([409, "SCHEDULE_CONFLICT"]);

  const shown = await request(dashboard, path("show", { name }));
  expect(shown.body).toMatchObject({
    schedule: { name, zone: "Europe/Berlin", payload: { user: 1 }, lastJobId: id },
    slots: [{ outcome: "run-now", jobId: id }],
    audit: [
      { action: "run-schedule", actor: "ada", reason: "after the fix" },
      { action: "resume-schedule", actor: "ada" },
      { action: "pause-schedule", actor: "ada", reason: "incident 12" },
      { action: "set-schedule", actor: "ada", reason: "asked for" },
    ],
  });
  const slots = await request(dashboard, path("slots", { name, before: "2020-01-01T00:00:00Z" }));
  expect(slots.body).toEqual({ slots: [] });

  expect((await post(dashboard, "/api/schedules/remove", { name, reason: "done" })).status).toBe(200);
  const gone = await request(dashboard, path("show", { name }));
  expect([gone.status, codeOf(gone)]).toEqual([404, "SCHEDULE_NOT_FOUND"]);
  for (const action of ["pause", "resume", "run", "remove"]) {
    const result = await post(dashboard, `/api/schedules/${action}`, { name, reason: "again" });
    expect([action, result.status, codeOf(result)]).toEqual([action, 404, "SCHEDULE_NOT_FOUND"]);
  }
});

test("a schedule of code can be paused, and neither removed nor replaced", async () => {
  const { stint } = await installation({ jobs: [remind] });
  await startWorker(stint, {
    handlers: [handle(remind, async () => {})],
    owner: "billing",
    schedules: [defineSchedule("nightly", { cron: "30 2 * * *", job: remind, payload: { user: 1 } })],
  });
  const dashboard = open({ role: "admin" }, { stint });
  const removed = await post(dashboard, "/api/schedules/remove", { name: "nightly", reason: "x" });
  expect([removed.status, codeOf(removed)]).toEqual([409, "SCHEDULE_CONFLICT"]);
  const body = { name: "nightly", kind: "remind", payload: { user: 2 }, every: "1h" };
  const replaced = await post(dashboard, "/api/schedules/add", body);
  expect([replaced.status, codeOf(replaced)]).toEqual([409, "SCHEDULE_EXISTS"]);
  expect((await post(dashboard, "/api/schedules/pause", { name: "nightly", reason: "x" })).status).toBe(200);
  expect(await stint.schedules.get("nightly")).toMatchObject({ state: "paused", cron: "30 2 * * *" });
});

const good = { name: "weekly", kind: "remind", payload: { user: 1 }, cron: "0 9 * * 1" };

const bad: readonly (readonly [what: string, body: Record<string, unknown>, says: string])[] = [
  ["an unknown zone", { ...good, zone: "Europe/Berlinn" }, 'did you mean "Europe/Berlin"'],
  ["an impossible pattern", { ...good, cron: "0 0 31 2 *" }, "cron"],
  ["no rule", { ...good, cron: "" }, "cron or every"],
  ["two rules", { ...good, every: "1h" }, "cron or every"],
  ["an end in the past", { ...good, endAt: "2020-01-01T00:00:00Z" }, "in the future"],
  ["a date that is none", { ...good, startAt: "tomorrow" }, "startAt"],
  ["an unknown kind", { ...good, kind: "remnd" }, 'did you mean "remind"'],
  ["an unknown policy", { ...good, catchUp: "some" }, "catchUp"],
  ["a name of 200 characters", { ...good, name: "n".repeat(200) }, "name"],
  ["HTML as a name", { ...good, name: "<img src=x onerror=alert(1)>" }, "name"],
  ["NUL in a name", { ...good, name: "a\0b" }, "name"],
  ["a number as a name", { ...good, name: 7 }, "name"],
  ["an unknown key", { ...good, catchup: "all" }, "catchUp"],
  ["a tenant that is no text", { ...good, tenant: { $gt: "" } }, "tenant"],
];

test("add refuses bad input with the reason, and changes nothing", async () => {
  const { stint } = await installation({ jobs: [remind] });
  const dashboard = open({ role: "admin" }, { stint });
  for (const [what, body, says] of bad) {
    const result = await post(dashboard, "/api/schedules/add", body);
    const message = (result.body as { error: { message: string } }).error.message;
    expect([what, result.status, message]).toEqual([what, 400, expect.stringContaining(says)]);
  }
  expect((await stint.schedules.list()).schedules).toEqual([]);
});

test("a preview has local times of any zone, across clock changes", async () => {
  const { stint } = await installation();
  const dashboard = open({ role: "view" }, { stint });
  const query = { cron: "30 2 * * *", zone: "Europe/Berlin", in: "Australia/Lord_Howe", count: "3" };
  const { body } = await request(dashboard, path("next", query));
  const { zone, slots } = body as { zone: string; slots: { at: string; local: string }[] };
  expect(zone).toBe("Australia/Lord_Howe");
  expect(slots).toHaveLength(3);
  for (const { at, local } of slots)
    expect(new Date(local.replace(/^\w+ /, "").replace(" ", "T").replace(" ", ""))).toEqual(new Date(at));

  const refused: [Record<string, string>, string][] = [
    [{ cron: "30 2 * * *", in: "Mars/Olympus" }, "IANA"],
    [{ cron: "30 2 * * *", zone: "<b>" }, "IANA"],
    [{ cron: "x".repeat(300) }, "cron"],
    [{ cron: "0 9 * * *", every: "1h" }, "one of them"],
    [{ cron: "0 9 * * *", count: "100000" }, "count"],
    [{}, "one of them"],
  ];
  for (const [given, says] of refused) {
    const result = await request(dashboard, path("next", given));
    expect([result.status, result.text]).toEqual([400, expect.stringContaining(says)]);
  }
  expect((await request(dashboard, path("next", { name: "none" }))).status).toBe(404);
});

test("payloads of schedules are for roles that may see them, redacted and audited", async () => {
  const { stint } = await installation({ jobs: [remind] });
  await stint.schedules.set("mine", {
    every: "1h",
    job: remind,
    payload: { user: 1, token: "hunter2hunter2" },
    options: { tenant: "hunter2hunter2" },
  });
  const seen: unknown[] = [];
  const options = { stint, redact: ["payload.token"], onAudit: (event: object) => void seen.push(event) };
  const view = await request(open({ role: "view" }, options), path("show", { name: "mine" }));
  expect(view.body).toMatchObject({ hidden: true, schedule: { payload: null, tenant: "[redacted]" } });
  expect(seen).toEqual([]);

  const admin = open({ role: "admin", user: "ada" }, options);
  const shown = await request(admin, path("show", { name: "mine" }));
  expect(shown.body).toMatchObject({ schedule: { payload: { user: 1, token: "[redacted]" } } });
  const listed = await request(admin, "/api/schedules");
  expect(view.text + shown.text + listed.text).not.toContain("hunter2");
  expect(seen).toMatchObject([
    { action: "payload-seen", user: "ada", job: null, schedule: "mine", kind: "remind" },
  ]);
});

test("a broken schedule stands in the list with its error and hides no other", async () => {
  const { fresh, stint } = await installation({ jobs: [remind] });
  await stint.schedules.set("good", { every: "1h", job: remind, payload: { user: 1 } });
  await stint.schedules.set("odd", { every: "1h", job: remind, payload: { user: 1 } });
  await fresh.sql(
    `update stint.schedule set cron = 'nonsense', every_ms = null, error = '<b>why</b>' where name = 'odd'`,
  );
  const { body } = await request(open({ role: "view" }, { stint }), "/api/schedules");
  expect(body).toMatchObject({
    schedules: [
      { name: "good", coming: expect.toSatisfy((all: unknown[]) => all.length === 20) },
      { name: "odd", coming: [], error: "<b>why</b>" },
    ],
  });
});

test("of several people who add the same name at once, one succeeds", async () => {
  const { stint } = await installation({ jobs: [remind] });
  const dashboard = open({ role: "admin" }, { stint });
  const added = await Promise.all(
    Array.from({ length: 5 }, async (_, n) =>
      post(dashboard, "/api/schedules/add", { ...good, name: "same", payload: { user: n } }),
    ),
  );
  expect(added.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(added.filter(({ status }) => status === 409)).toHaveLength(4);
  const winner = added.findIndex(({ status }) => status === 201);
  expect(await stint.schedules.get("same")).toMatchObject({ payload: { user: winner } });
});
