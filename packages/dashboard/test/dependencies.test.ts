/** Dependencies on a real installation: live values, audited changes, roles, confirmation, hostile input. */
import { defineDependency, defineJob, handle, RateLimitedError, typed } from "stint";
import type { Controls } from "stint/inspect";
import { expect, test } from "vitest";
import { gate } from "../../stint/test/support/gate.ts";
import { until } from "../../stint/test/support/until.ts";
import { startWorker } from "../../stint/test/support/watch.ts";
import { hostileText } from "./support/every-state.ts";
import { installation } from "./support/installation.ts";
import { open, post, request, type TestResponse } from "./support/request.ts";

const openai = defineDependency("openai", {
  concurrency: { max: 2, recover: "1d" },
  rate: { limit: 2, per: "1h", burst: 50 },
  quota: { limit: 100, per: "month", zone: "Europe/Berlin" },
});
const ask = defineJob("ask", { payload: typed<{ refuse: boolean }>(), queue: "ai", uses: [openai] });

const codeOf = ({ body }: TestResponse): string => (body as { error: { code: string } }).error.code;
const read = async (dashboard: ReturnType<typeof open>): Promise<Controls["dependencies"][number]> => {
  const { dependencies } = (await request(dashboard, "/api/controls")).body as Controls;
  expect(dependencies).toHaveLength(1);
  return dependencies[0]!;
};

test("a dependency is shown with what is left of it, and each change is audited", async () => {
  const { stint } = await installation({ jobs: [ask] });
  const held = gate();
  await startWorker(stint, {
    pools: { ai: 8 },
    handlers: [
      handle(ask, async ({ payload: { refuse } }) => {
        await held.opened;
        if (refuse) throw new RateLimitedError({ retryAfter: "1h" });
      }),
    ],
  });
  for (const refuse of [false, true, false]) await stint.enqueue(ask, { refuse });
  const dashboard = open({ role: "operate", user: "ada" }, { stint });
  // A job has its place before it takes its token, and takes another one if it could not start within a second.
  const isFull = async () => {
    const { waiting, running, quotaLeft } = await read(dashboard);
    return waiting === 1 && running === 2 && quotaLeft! <= 98;
  };
  await until(isFull, { message: "two run and one waits" });
  const soon = new Date(Date.now() + 3_700_000).toISOString();
  const before = await read(dashboard);
  expect(before).toMatchObject({
    name: "openai",
    kinds: ["ask"],
    running: 2,
    effectiveConcurrency: 2,
    isPaused: false,
    slowUntil: null,
    declared: before.settings,
  });
  expect(before.tokens).toBeLessThanOrEqual(48);
  const nextToken = before.nextTokenAt as unknown as string;
  expect([nextToken > new Date(0).toISOString(), nextToken < soon]).toEqual([true, true]);
  held.open();
  await until(async () => (await read(dashboard)).slowUntil !== null, { message: "it is held back" });
  expect(await read(dashboard)).toMatchObject({ effectiveConcurrency: 1 });

  const act = async (path: string, body: object) =>
    await post(dashboard, `/api/${path}`, { reason: "incident 12", ...body });
  const rate = { limit: 1, per: "1h", burst: 5 };
  expect(
    (await act("dependencies/set", { name: "openai", change: { rate, quota: null } })).body,
  ).toMatchObject({
    settings: { concurrency: { max: 2 }, rate: { limit: 1, perMs: 3_600_000, burst: 5 } },
    effectiveConcurrency: 2,
    quotaLeft: null,
    slowUntil: null,
    updatedBy: "ada",
  });
  expect((await act("pauses/pause", { scope: "dependency", name: "openai" })).body).toEqual({});
  expect((await read(dashboard)).isPaused).toBe(true);
  expect((await act("pauses/resume", { scope: "dependency", name: "openai" })).body).toEqual({
    resumed: true,
  });
  const declared = await act("dependencies/set", { name: "openai", change: null });
  expect(declared.body).toMatchObject({ settings: before.settings, declared: before.settings });

  const { changes } = (await request(dashboard, "/api/controls")).body as Controls;
  expect(changes.map(({ actor, action, subject }) => [actor, action, subject]).slice(0, 4)).toEqual([
    ["ada", "set-dependency", "dependency:openai"],
    ["ada", "resume", "dependency:openai"],
    ["ada", "pause", "dependency:openai"],
    ["ada", "set-dependency", "dependency:openai"],
  ]);
});

const bad: readonly (readonly [name: unknown, change: unknown, says: string])[] = [
  ["", {}, "name"],
  [{ $gt: "" }, {}, "name"],
  ["a b", {}, "name"],
  [hostileText, {}, "name"],
  ["x".repeat(117), {}, "name"],
  ["openai", undefined, "change"],
  ["openai", [], "change"],
  ["openai", "5", "change"],
  ["openai", { concurency: 5 }, "concurrency"],
  ["openai", { concurrency: 0 }, "concurrency"],
  ["openai", { concurrency: 1.5 }, "concurrency"],
  ["openai", { concurrency: true }, "concurrency"],
  ["openai", { concurrency: [] }, "concurrency"],
  ["openai", { concurrency: { max: 1, min: 2 } }, "min"],
  ["openai", { concurrency: { max: 1, recover: -1 } }, "recover"],
  ["openai", { rate: 5 }, "rate"],
  ["openai", { rate: "60/1m" }, "rate"],
  ["openai", { rate: [] }, "rate"],
  ["openai", { rate: { limit: -1, per: "1m" } }, "limit"],
  ["openai", { rate: { limit: null, per: "1m" } }, "limit"],
  ["openai", { rate: { limit: 1, per: "soon" } }, "per"],
  ["openai", { rate: { limit: 1, per: "1m", burst: 0 } }, "burst"],
  ["openai", { quota: true }, "quota"],
  ["openai", { quota: { limit: 5, per: "year" } }, "per"],
  ["openai", { quota: { limit: 5, per: "day", zone: "Mars/Olympus" } }, "zone"],
  ["openai", { quota: { limit: 5, per: "day", zone: 5 } }, "zone"],
  ["openai", { quota: { limit: 1e30, per: "day" } }, "limit"],
];

test("a bad change of a dependency is refused with the reason, and changes nothing", async () => {
  const { stint } = await installation();
  const dashboard = open({ role: "admin" }, { stint });
  for (const [name, change, says] of bad) {
    const refused = await post(dashboard, "/api/dependencies/set", { reason: "x", name, change });
    expect([name, change, refused.status, refused.text]).toEqual([
      name,
      change,
      400,
      expect.stringContaining(says),
    ]);
  }
  expect((await request(dashboard, "/api/controls")).body).toMatchObject({ dependencies: [], changes: [] });
});

test("a change of a dependency needs the role, a reason and a confirmation", async () => {
  const { stint } = await installation();
  const change = { name: "openai", change: { concurrency: 5 }, reason: "incident 12" };
  const send = async (dashboard: ReturnType<typeof open>, body: object) =>
    await post(dashboard, "/api/dependencies/set", body);
  expect((await send(open({ role: "view" }, { stint }), change)).status).toBe(403);
  const environment = { name: "live", production: true };
  const dashboard = open({ role: "operate" }, { stint, environment });
  expect(codeOf(await send(dashboard, change))).toBe("CONFIRMATION_NEEDED");
  const silent = await send(dashboard, { ...change, reason: "", confirm: "live" });
  expect([silent.status, silent.text]).toEqual([400, expect.stringContaining("reason")]);
  expect(await stint.dependencies.list()).toEqual([]);
  expect((await send(dashboard, { ...change, confirm: "live" })).status).toBe(200);
  expect((await stint.dependencies.list()).map(({ name }) => name)).toEqual(["openai"]);
});
