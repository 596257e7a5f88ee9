import { expect, onTestFinished, test } from "vitest";
import { silentLogger } from "#stint/index.js";
import { Meter } from "#stint/telemetry/meter.js";
import { Service } from "#stint/upkeep/service-loop.js";
import { prune } from "#stint/upkeep/prune.js";
import { services } from "#stint/upkeep/services.js";
import type { RunningService, UpkeepService } from "#stint/upkeep/upkeep-service.js";
import { Upkeep, type WorkerIdleCheck } from "#stint/upkeep/upkeep.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";

type Seen = { readonly checks: WorkerIdleCheck[]; failures: number };

function start(fresh: Fresh, list: readonly UpkeepService[]): { upkeep: Upkeep; seen: Seen } {
  const seen: Seen = { checks: [], failures: 0 };
  const upkeep = new Upkeep(
    fresh.db,
    {
      logger: silentLogger,
      worker: { id: "w", host: "h", pid: 1, version: "v", pools: { main: 1 }, kinds: ["work"] },
      saveState: async () => await Promise.resolve(true),
      meter: new Meter(),
      vitals: () => ({ busy: 0, slots: 1, waiting: 0, lagMs: 0, rssBytes: 0 }),
      rescueEveryMs: 60_000,
      maxCrashes: 3,
      keepDoneMs: 1_000_000,
      keepDeadMs: 1_000_000,
      onPromoted: () => undefined,
      onReady: () => undefined,
      onRescued: () => undefined,
      onPauses: () => undefined,
      onExpired: () => undefined,
      onUnserved: () => undefined,
      onClaimOrders: () => undefined,
      onLimits: () => undefined,
      onRunBaseline: () => undefined,
      queues: () => ["main"],
      search: undefined,
      idleCheckMs: () => 20,
      onIdleCheck: (check) => void seen.checks.push(check),
      onIdleCheckFailed: () => void (seen.failures += 1),
    },
    list,
  );
  upkeep.start();
  onTestFinished(() => upkeep.stop());
  return { upkeep, seen };
}

/** A service that rests for an hour unless it is woken, and the values that its part of the idle check had. */
function custom(
  part: UpkeepService["idleCheck"],
  more: Partial<RunningService> = {},
): { definition: UpkeepService; ticks: () => number; values: (number | null)[] } {
  let ticks = 0;
  const values: (number | null)[] = [];
  const create: UpkeepService["create"] = ({ logger }) => {
    const service = new Service({
      name: "custom",
      logger,
      tick: async () => {
        ticks += 1;
        return await Promise.resolve(3_600_000);
      },
    });
    return {
      service,
      onIdleCheck: (dueInMs) => {
        values.push(dueInMs);
        if (dueInMs !== null) service.wakeIn(dueInMs);
      },
      ...more,
    };
  };
  const definition = { name: "custom", create, ...(part === undefined ? {} : { idleCheck: part }) };
  return { definition, ticks: () => ticks, values };
}

test("a service in the list adds its part to the idle check and gets its value", async () => {
  const fresh = await freshSchema();
  const { definition, ticks, values } = custom({ sql: "select 5", endsSleep: true });
  const { seen } = start(fresh, [...services, definition]);
  await until(() => ticks() >= 3, { message: "the idle check wakes the service" });

  expect(new Set(values)).toEqual(new Set([5]));
  expect(seen.checks[0]?.nextDueMs).toBe(5);
});

test("the earliest work of any service decides how long a worker may sleep", async () => {
  const fresh = await freshSchema();
  const later = custom({ sql: "select 9000", endsSleep: true });
  const sooner = custom({ sql: "select 7000", endsSleep: true });
  const { seen } = start(fresh, [...services, later.definition, { ...sooner.definition, name: "sooner" }]);
  await until(() => seen.checks.length > 0, { message: "an idle check" });
  expect(seen.checks[0]?.nextDueMs).toBe(7_000);

  await fresh.sql(`select stint.enqueue('work', '{}', '{"queue": "main", "delay": "5s"}')`);
  await until(() => (seen.checks.at(-1)?.nextDueMs ?? 0) < 7_000, { message: "the scheduled job is seen" });
});

test("a part without work, or that need not end a sleep, leaves the worker asleep", async () => {
  const fresh = await freshSchema();
  const none = custom({ sql: "select null", endsSleep: true });
  const minor = custom({ sql: "select 5", endsSleep: false });
  const { seen } = start(fresh, [...services, none.definition, { ...minor.definition, name: "minor" }]);
  await until(() => seen.checks.length >= 2, { message: "two idle checks" });

  expect(seen.checks.map(({ nextDueMs }) => nextDueMs)).not.toContain(5);
  expect(none.values[0]).toBeNull();
  expect(minor.values[0]).toBe(5);
});

test("a worker may sleep only when every service is done", async () => {
  const fresh = await freshSchema();
  let done = false;
  const { definition, ticks } = custom(undefined, {
    isDone: () => done,
    flush: async () => await Promise.resolve(),
  });
  const { upkeep } = start(fresh, [definition]);
  await until(() => ticks() === 1, { message: "the first tick" });
  expect(upkeep.isDone).toBe(false);
  upkeep.flushSoon();
  await until(() => ticks() === 2, { message: "the service was woken to flush" });
  done = true;
  upkeep.flushSoon();

  expect(upkeep.isDone).toBe(true);
  expect(ticks()).toBe(2);
});

test("flush reaches every service that has something to write", async () => {
  const fresh = await freshSchema();
  let flushed = 0;
  const { definition } = custom(undefined, { flush: async () => await Promise.resolve(void (flushed += 1)) });
  const { upkeep } = start(fresh, [definition, { ...definition, name: "other" }, services[0]]);
  await upkeep.flush();

  expect(flushed).toBe(2);
});

test("when an idle check fails, services and the worker are notified", async () => {
  const fresh = await freshSchema();
  const errors: unknown[] = [];
  const { definition } = custom(
    { sql: "select 1 / 0", endsSleep: true },
    { onIdleCheckFailed: (error) => void errors.push(error) },
  );
  const { seen } = start(fresh, [...services, definition]);
  await until(() => seen.failures > 0, { message: "the check failed" });

  expect(errors[0]).toMatchObject({ code: "22012" });
  expect(seen.checks).toEqual([]);
});

test("the names of the registered services are unique", () => {
  const names = services.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});

test("a new worker makes partitions at once, and prunes about a second later", async () => {
  const fresh = await freshSchema();
  const sent = new Map<string, number>();
  const db = new Proxy(fresh.db, {
    get: (own, property) => {
      const value: unknown = Reflect.get(own, property, own);
      if (property !== "run") return typeof value === "function" ? (value.bind(own) as unknown) : value;
      return async (...call: Parameters<Fresh["db"]["run"]>) => {
        const [{ name }] = call;
        if (!sent.has(name)) sent.set(name, performance.now());
        return await own.run(...call);
      };
    },
  });
  start({ ...fresh, db }, [prune]);

  await until(() => sent.has("prune-dead"), { message: "the first prune" });
  const laterMs = (sent.get("prune-dead") ?? 0) - (sent.get("make-partitions") ?? Infinity);
  expect(laterMs).toBeGreaterThan(750);
});
