import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed, type Stint } from "#stint/index.js";
import { claim } from "#stint/sql/claim.js";
import { takeShare } from "#stint/sql/take-places.js";
import { blockedKeys } from "#stint/sql/doctor/limits.js";
import { limitsRule } from "#stint/doctor/checks/limits.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

type Charge = { account: string };

const charge = defineJob("charge", {
  payload: typed<Charge>(),
  limits: [{ name: "account", key: ({ account }) => account, max: 1 }],
});
const event = defineJob("event", {
  payload: typed<Charge>(),
  order: { key: ({ account }) => account },
  attempts: 1,
});

/** A worker whose handlers run until the gate opens. `started` lists the jobs that started. */
async function held(
  stint: Stint,
): Promise<{ started: string[]; open: () => void; stop: () => Promise<unknown> }> {
  const opened = gate();
  const started: string[] = [];
  const run = async ({ id }: { id: string }): Promise<void> => {
    started.push(id);
    await opened.opened;
  };
  const worker = stint.worker({
    pools: { default: 8 },
    handlers: [handle(charge, run), handle(event, run)],
  });
  await worker.start();
  return { started, open: () => opened.open(), stop: async () => await worker.stop() };
}

const parked = async (fresh: Fresh, count: number): Promise<unknown> =>
  await until(
    async () => (await fresh.sql(`select from stint.job where park_reason = 'limit'`)).length === count,
    { message: `${count} jobs wait` },
  );

test("a changed payload moves a waiting job to the limit of its new key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge, event] });
  const { started, open, stop } = await held(stint);
  await stint.enqueue(charge, { account: "a" });
  await until(() => started.length === 1, { message: "the first runs" });
  const second = await stint.enqueue(charge, { account: "a" });
  await parked(fresh, 1);

  await stint.change(second.id, { payload: { account: "b" } }, { reason: "test" });
  await until(() => started.includes(second.id), { message: "it runs under its new key" });
  expect((await fresh.sql(`select limits from stint.job where id = $1`, [second.id]))[0]).toEqual({
    limits: ["key:account=b"],
  });
  open();
  await stop();
});

test("a changed payload moves a waiting job to the end of its new ordered key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge, event] });
  const [first, second, other] = [
    await stint.enqueue(event, { account: "a" }),
    await stint.enqueue(event, { account: "a" }),
    await stint.enqueue(event, { account: "b" }),
  ];
  await stint.change(second.id, { payload: { account: "b" } }, { reason: "test" });
  await stint.change(first.id, { payload: { account: "c" } }, { reason: "test" });
  const keys = (await stint.limits.keys()).map(({ key, held: has, waiting, holder }) => [
    key,
    has,
    waiting,
    holder,
  ]);
  expect(keys).toEqual([
    ["order:event=b", 1, 1, other.id],
    ["order:event=c", 1, 0, first.id],
  ]);
  const { started, open, stop } = await held(stint);
  open();
  await until(() => started.length === 3, { message: "all run" });
  expect(started.indexOf(other.id)).toBeLessThan(started.indexOf(second.id));
  await stop();
});

test("a changed priority moves a waiting job before others of its key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge, event] });
  const { started, open, stop } = await held(stint);
  await stint.enqueue(charge, { account: "a" });
  await until(() => started.length === 1, { message: "the first runs" });
  await stint.enqueue(charge, { account: "a" });
  const urgent = await stint.enqueue(charge, { account: "a" });
  await parked(fresh, 2);
  await stint.change(urgent.id, { priority: -1 }, { reason: "test" });
  open();
  await until(() => started.length === 3, { message: "all run" });
  expect(started[1]).toBe(urgent.id);
  await stop();
});

test("the next run of again with another payload is under the limit of that payload", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge] });
  const worker = stint.worker({
    pools: { default: 2 },
    handlers: [
      handle(charge, async ({ payload, again }) => {
        if (payload.account === "a") await again({ in: "1h", payload: { account: "b" } });
      }),
    ],
  });
  await worker.start();
  await stint.enqueue(charge, { account: "a" });
  await until(async () => (await fresh.sql(`select from stint.job where state = 'scheduled'`)).length === 1, {
    message: "the next run is planned",
  });
  expect(await fresh.sql(`select limits from stint.job`)).toEqual([{ limits: ["key:account=b"] }]);
  await worker.stop();
});

test("doctor names the dead job that blocks an ordered key", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [event] });
  const worker = stint.worker({
    pools: { default: 2 },
    handlers: [
      handle(event, () => {
        throw new Error("broken");
      }),
    ],
  });
  const first = await stint.enqueue(event, { account: "a" });
  await stint.enqueue(event, { account: "a" });
  await worker.start();
  await until(async () => (await stint.get(first.id))?.state === "dead", { message: "the head is dead" });
  await worker.stop();

  const { findings: found } = limitsRule(await blockedKeys(fresh.db, 3_600_000), "stint");
  expect(found.map(({ title }) => title)).toEqual(["A dead job blocks an ordered key"]);
  const old = limitsRule(await blockedKeys(fresh.db, 0), "stint");
  expect(old.findings).toHaveLength(1);
});

test("doctor reports a limit whose first job has waited for an hour", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.limit_place (job_id, key, holds, run_at, at)
     values (gen_random_uuid(), 'key:account=a', false, clock_timestamp(), clock_timestamp() - interval '2 hours')`,
  );
  const { findings } = limitsRule(await blockedKeys(fresh.db, 3_600_000), "stint");
  expect(findings.map(({ title }) => title)).toEqual(["A limit has been full for long"]);
});

test("a raised limit lets waiting jobs in while a worker runs, without a job that ends", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge] });
  const { started, open, stop } = await held(stint);
  for (let n = 0; n < 3; n++) await stint.enqueue(charge, { account: "a" });
  await parked(fresh, 2);
  await stint.limits.set("key:account", 3, { reason: "test" });
  await until(() => started.length === 3, { message: "all run" });
  expect((await stint.limits.keys()).map(({ held: has, waiting }) => [has, waiting])).toEqual([[3, 0]]);
  open();
  await stop();
});

test("an enqueue that replaces a waiting payload gives the job its new keys", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge, event] });
  const { started, open, stop } = await held(stint);
  const dedupe = { key: "latest", replace: true } as const;
  await stint.enqueue(charge, { account: "a" });
  await until(() => started.length === 1, { message: "the first runs" });
  const waiting = await stint.enqueue(charge, { account: "a" }, { dedupe });
  await parked(fresh, 1);
  await stint.enqueue(charge, { account: "b" }, { dedupe });
  await until(() => started.includes(waiting.id), { message: "it runs under its new key" });

  await stint.enqueue(event, { account: "x" });
  const ordered = await stint.enqueue(event, { account: "y" }, { dedupe, delay: "1h" });
  await until(() => started.length === 3, { message: "the first event runs" });
  await stint.enqueue(event, { account: "x" }, { dedupe });
  const keys = (await stint.limits.keys({ name: "order:event=x" })).map((key) => [key.held, key.waiting]);
  expect([(await stint.get(ordered.id))?.state, keys]).toEqual(["parked", [[1, 1]]]);
  open();
  await stop();
});

test("a limit that code declares no more is removed, and its waiting jobs run", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const limited = defineJob("send", {
    payload: typed<Charge>(),
    limits: [{ max: 1 }, { key: ({ account }) => account, max: 1 }, { name: "shared", max: 9 }],
  });
  const other = defineJob("other", { payload: typed<Charge>(), limits: [{ max: 7 }] });
  const opened = gate();
  const first = stint.worker({
    pools: { default: 4 },
    handlers: [handle(limited, () => opened.opened), handle(other, () => undefined)],
  });
  await first.start();
  for (const account of ["a", "a", "b"]) await stint.enqueue(limited, { account });
  await parked(fresh, 2);

  let running = 0;
  const unlimited = defineJob("send", { payload: typed<Charge>() });
  const run = async (): Promise<void> => {
    running += 1;
    await opened.opened;
  };
  const second = stint.worker({ pools: { default: 4 }, handlers: [handle(unlimited, run)] });
  await first.stop({ drain: 0, abort: 0 });
  await second.start();
  await until(() => running === 3, { message: "all run" });
  const names = (await stint.limits.list()).map(({ name }) => name);
  expect(names).toEqual(["key:shared", "kind:other"]);
  expect((await stint.limits.audit("kind:send"))[0]).toMatchObject({
    change: { max: { from: 1, to: null } },
  });
  opened.open();
  await second.stop();
});

test("a change of a limit gives way to a session that locks its rows in another order", async () => {
  const fresh = await freshSchema();
  await fresh.client().limits.set("key:account", 10, { reason: "test" });
  await fresh.client().enqueue(charge, { account: "a" });
  const input = {
    worker: "w",
    leaseId: randomUUID(),
    kinds: ["charge"],
    kindLeaseMs: {},
    leaseMs: 3_600_000,
  };
  await claim(fresh.db, { ...input, takes: [{ queue: "default", limit: 1 }] });
  await takeShare(fresh.db, "w", "key:account", { least: 1, most: 1 });
  const session = await adminClient(fresh.url);
  onTestFinished(() => session.end());
  // It waits for as long as the change lets it.
  await session.query("begin; set local deadlock_timeout = '1h'");
  await session.query(`select from "${fresh.schema}".job for update`);

  const errors: unknown[] = [];
  const change = async (): Promise<void> => {
    await fresh.sql(`select stint.set_limit('key:account', 2, 'test')`).catch(async (error: unknown) => {
      errors.push((error as { code?: string }).code);
      await change();
    });
  };
  const changing = change();
  // It locks shares first, and then waits for the job.
  const free = `select from stint.limit_share for update skip locked`;
  await until(async () => (await fresh.sql(free)).length === 0, { message: "it has locked the share" });
  await session.query(`select from "${fresh.schema}".limit_share for update`);
  await session.query("commit");
  await changing;
  // Not a deadlock: the server might have cancelled the other session.
  expect(errors).not.toContain("40P01");
});
