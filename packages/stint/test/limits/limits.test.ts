import { expect, test } from "vitest";
import { defineJob, entry, handle, snooze, steps, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { states, stopAll, twoWorkers } from "../support/two-workers.ts";
import { until } from "../support/until.ts";

type Charge = { account: string };

/** Runs jobs until `open` is called, and remembers how many ran at once for each key. */
class Crowd {
  readonly running = new Map<string, number>();
  readonly most = new Map<string, number>();
  readonly started: string[] = [];
  readonly #gate = gate();

  async enter(key: string): Promise<void> {
    const now = (this.running.get(key) ?? 0) + 1;
    this.running.set(key, now);
    this.most.set(key, Math.max(now, this.most.get(key) ?? 0));
    this.started.push(key);
    await this.#gate.opened;
    this.running.set(key, (this.running.get(key) ?? 0) - 1);
  }

  open(): void {
    this.#gate.open();
  }
}

test("no more jobs of a key run at once than its limit, over all workers", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const charge = defineJob("charge", {
    payload: typed<Charge>(),
    limits: [{ key: ({ account }) => account, max: 2 }],
  });
  const workers = await twoWorkers(stint, [handle(charge, ({ payload }) => crowd.enter(payload.account))]);
  for (const account of ["a", "a", "a", "a", "b", "b", "b"]) await stint.enqueue(charge, { account });

  await until(() => crowd.started.length === 4, { message: "two of each account run" });
  await until(async () => (await states(fresh))["parked"] === 3, { message: "the others wait" });
  expect(await states(fresh)).toEqual({ running: 4, parked: 3 });
  expect(await stint.limits.keys()).toMatchObject([
    { key: "kind:charge#1=a", max: 2, held: 2, waiting: 2 },
    { key: "kind:charge#1=b", max: 2, held: 2, waiting: 1 },
  ]);
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 7, { message: "all have run" });
  await stopAll(workers);

  expect(Object.fromEntries(crowd.most)).toEqual({ a: 2, b: 2 });
  expect(await stint.limits.keys()).toEqual([]);
  const [row] = await fresh.sql(
    `select max(attempts) as attempts, max(interruptions) as interruptions from stint.jobs`,
  );
  expect(row).toEqual({ attempts: 1, interruptions: 0 });
});

test("limits of a kind, its queue, its tenants and a shared key apply together", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const shared = { name: "gpu", max: 5 };
  const train = defineJob("train", {
    payload: typed<null>(),
    limits: [{ max: 4 }, { by: "tenant", max: 2 }, { by: "queue", max: 6 }, shared],
  });
  const infer = defineJob("infer", { payload: typed<null>(), limits: [{ by: "queue", max: 6 }, shared] });
  const enter = ({ kind, tenant }: { kind: string; tenant: string | null }): Promise<void> =>
    crowd.enter(`${kind} ${tenant}`);
  const workers = await twoWorkers(stint, [handle(train, enter), handle(infer, enter)]);
  for (let index = 0; index < 4; index++) {
    await stint.enqueue(train, null, { tenant: "acme" });
    await stint.enqueue(train, null, { tenant: "zoo" });
  }
  await until(() => crowd.started.length === 4, { message: "two jobs of each tenant run" });
  for (let index = 0; index < 4; index++) await stint.enqueue(infer, null);
  await until(() => crowd.started.length === 5, { message: "the shared key has one more place" });
  await until(async () => (await states(fresh))["parked"] === 7, { message: "the others wait" });
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 12, { message: "all have run" });
  await stopAll(workers);

  expect(crowd.most.get("train acme")).toBe(2);
  expect(crowd.most.get("train zoo")).toBe(2);
});

test("a full key does not hold up the jobs behind it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const charge = defineJob("charge", {
    payload: typed<Charge>(),
    limits: [{ key: ({ account }) => account, max: 1 }],
  });
  const entries = Array.from({ length: 3_000 }, () => ({ job: charge, payload: { account: "full" } }));
  await stint.enqueueMany(entries);
  await stint.enqueue(charge, { account: "other" });
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(charge, ({ payload }) => crowd.enter(payload.account))],
  });
  await worker.start();
  await until(() => crowd.started.includes("other"), { message: "the job behind the full key runs" });

  expect(crowd.started.toSorted()).toEqual(["full", "other"]);
  // Whole stretches of the queue are parked at once, and not one job for each claim.
  const [row] = await fresh.sql<{ claims: number }>(`select sum(epoch)::integer as claims from stint.job`);
  expect(row!.claims).toBeLessThan(60);
  crowd.open();
  await worker.stop({ drain: 0 });
});

test("a limit can be changed while jobs wait for it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const charge = defineJob("charge", { payload: typed<null>(), limits: [{ max: 1 }] });
  const workers = await twoWorkers(stint, [handle(charge, () => crowd.enter("all"))]);
  for (let index = 0; index < 6; index++) await stint.enqueue(charge, null);
  await until(async () => (await states(fresh))["parked"] === 5, { message: "one runs" });

  await stint.limits.set("kind:charge", 4, { reason: "the provider allows more", actor: "ann" });
  await until(() => crowd.started.length === 4, { message: "four run" });
  expect(await stint.limits.list()).toMatchObject([
    { name: "kind:charge", max: 4, declaredMax: 1, updatedBy: "ann" },
  ]);
  await stint.limits.set("kind:charge", null, { reason: "back to normal" });
  expect(await stint.limits.list()).toMatchObject([{ max: 1 }]);
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 6, { message: "all have run" });
  await stopAll(workers);

  expect(crowd.most.get("all")).toBe(4);
  expect(await stint.limits.audit("kind:charge")).toMatchObject([
    { action: "set-limit", change: { max: { from: 4, to: 1 } } },
    {
      action: "set-limit",
      actor: "ann",
      reason: "the provider allows more",
      change: { max: { from: 1, to: 4 } },
    },
    { action: "declare-limit", change: { max: { from: null, to: 1 } } },
  ]);
});

test("a limit made live applies to a kind that declares none, and counts what runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const send = defineJob("send", { payload: typed<"holds" | "ends">() });
  const run = ({ payload }: { payload: string }): unknown =>
    payload === "holds" ? crowd.enter("all") : undefined;
  const worker = stint.worker({ pools: { default: 8 }, handlers: [handle(send, run)] });
  await worker.start();
  await stint.enqueue(send, "holds");
  await until(() => crowd.started.length === 1, { message: "one runs" });
  await stint.limits.set("queue:default", 1, { reason: "the mail server is slow" });
  expect(await stint.limits.keys()).toMatchObject([{ key: "queue:default", max: 1, held: 1 }]);
  // The worker reads the limits at the hint of the change, and once a second.
  await until(
    async () => {
      const { id } = await stint.enqueue(send, "ends");
      const found = await until(async () => {
        const job = await stint.get(id);
        return job?.state === "succeeded" || job?.state === "parked" ? job : undefined;
      });
      return found?.state === "parked";
    },
    { message: "the worker knows of the limit" },
  );
  crowd.open();
  await until(async () => (await states(fresh))["parked"] === undefined, { message: "none waits" });
  await worker.stop();
});

test("a limit that is set for one tenant applies to kinds that declare none", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const send = defineJob("send", { payload: typed<null>() });
  await stint.limits.set("tenant:*=acme", 1, { reason: "test" });
  await stint.limits.set("tenant:send=zoo", 1, { reason: "test" });
  const workers = await twoWorkers(stint, [handle(send, ({ tenant }) => crowd.enter(String(tenant)))]);
  for (const tenant of ["acme", "zoo", "other"])
    await stint.enqueueMany([1, 2].map(() => entry(send, null, { tenant })));
  await until(() => crowd.started.length === 4, { message: "all that may run" });
  await until(async () => (await states(fresh))["parked"] === 2, { message: "the others wait" });
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 6, { message: "all have run" });
  await stopAll(workers);
  expect(Object.fromEntries(crowd.most)).toEqual({ acme: 1, zoo: 1, other: 2 });
});

test("jobs that a worker begins before it knows of a limit count for it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const send = defineJob("send", { payload: typed<null>() });
  const workers = await twoWorkers(stint, [handle(send, () => crowd.enter("all"))]);
  await stint.enqueueMany(Array.from({ length: 5 }, () => entry(send, null)));
  await until(() => crowd.started.length === 5, { message: "all run" });
  // As if they had begun after the statement that sets the limit, which counts what runs.
  await fresh.sql(`insert into stint.limit (name, max, updated_by) values ('kind:send', 3, 'test')`);
  await fresh.sql(`select stint.wake(array['limits'])`);
  await until(async () => (await stint.limits.keys())[0]?.held === 5, { message: "they are counted" });
  await stint.enqueue(send, null);
  await until(async () => (await states(fresh))["parked"] === 1, { message: "the next one waits" });
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 6, { message: "all have run" });
  await stopAll(workers);
  expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
});

test("jobs that carry no keys get those of the worker's code", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const crowd = new Crowd();
  const before = defineJob("charge", { payload: typed<Charge>() });
  const charge = defineJob("charge", {
    payload: typed<Charge>(),
    limits: [{ key: ({ account }) => account.trim(), max: 1 }],
    attempts: 1,
  });
  const event = defineJob("event", { payload: typed<Charge>(), order: { key: ({ account }) => account } });
  await stint.enqueueMany([1, 2].map(() => entry(before, { account: "a" })));
  const workers = await twoWorkers(stint, [
    handle(charge, ({ payload }) => crowd.enter(payload.account)),
    handle(event, ({ payload }) => crowd.enter(payload.account)),
  ]);
  const sql = `select stint.enqueue($1, jsonb_build_object('account', $2::text)) as id`;
  await fresh.sql(sql, ["charge", "a"]);
  for (let n = 0; n < 3; n++) await fresh.sql(sql, ["event", "ordered"]);
  await stint.enqueue(charge, { account: "a" });
  await until(async () => (await states(fresh))["parked"] === 5, { message: "one of each key runs" });
  const [broken] = await fresh.sql<{ id: string }>(`select stint.enqueue('charge', '{}') as id`);
  await until(async () => (await stint.get(broken!.id))?.state === "dead", {
    message: "a job without an account fails",
  });
  crowd.open();
  await until(async () => (await states(fresh))["succeeded"] === 7, { message: "all others have run" });
  await stopAll(workers);
  expect(Object.fromEntries(crowd.most)).toEqual({ a: 1, ordered: 1 });
});

test("a job that is cancelled, fails, snoozes or sleeps frees its place", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  const hold = gate();
  const work = defineJob("work", {
    payload: typed<{ how: string }>(),
    limits: [{ max: 1 }],
    backoff: steps("1h"),
    attempts: 2,
  });
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(work, async ({ payload: { how }, sleep }) => {
        ran.push(how);
        if (how === "fails") throw new Error("no");
        if (how === "snoozes") return snooze("1h");
        if (how === "sleeps") await sleep("1h");
        if (how === "holds") await hold.opened;
        return undefined;
      }),
    ],
  });
  await worker.start();
  const held = await stint.enqueue(work, { how: "holds" });
  await until(() => ran.length === 1, { message: "the first runs" });
  const doomed = await stint.enqueue(work, { how: "never" });
  for (const how of ["fails", "snoozes", "sleeps", "last"]) await stint.enqueue(work, { how });
  await until(async () => (await states(fresh))["parked"] === 5, { message: "five wait" });
  await stint.cancel(doomed.id);
  hold.open();
  await until(() => ran.includes("last"), { message: "each let the next one in" });
  await until(async () => (await stint.get(held.id))?.state === "succeeded", {
    message: "the first is recorded",
  });
  await worker.stop();

  expect(ran).toEqual(["holds", "fails", "snoozes", "sleeps", "last"]);
  expect(await fresh.sql(`select * from stint.limit_place where holds`)).toEqual([]);
});
