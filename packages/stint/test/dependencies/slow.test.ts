import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { defineDependency, defineJob, entry, handle, RateLimitedError, typed } from "#stint/index.js";
import { Tokens } from "#stint/worker/tokens.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

// A busy machine may stop this process for more than a second between a take and the start. late.test.ts is about that.
beforeEach(() => void vi.spyOn(Tokens.prototype, "isStale").mockReturnValue(false));
afterEach(() => void vi.restoreAllMocks());

const look = (fresh: Fresh): Promise<unknown> => fresh.sql(`select stint.wake(array['dependencies'])`);

/** End the pause that the system asked for. */
async function endPause(fresh: Fresh): Promise<void> {
  await fresh.sql(`update stint.dependency set slow_until = clock_timestamp(), next_at = clock_timestamp()`);
  await fresh.sql(`update stint.job set run_at = clock_timestamp() where state = 'retrying'`);
  await fresh.sql(`select stint.wake(array['dependencies', 'due'])`);
}

test("a RateLimitedError holds back all kinds of a dependency, and spends no attempt", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { concurrency: 10 });
  const [ask, other] = ["ask", "other"].map((kind) =>
    defineJob(kind, { payload: typed<null>(), uses: [api], attempts: 1 }),
  );
  const ran: string[] = [];
  let refuses = true;
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(ask!, () => {
        ran.push("ask");
        if (refuses) throw new RateLimitedError({ retryAfter: "1h" });
      }),
      handle(other!, () => void ran.push("other")),
    ],
  });
  await worker.start();
  const { id } = await stint.enqueue(ask!, null);
  await until(async () => (await stint.dependencies.get("api"))?.slowUntil != null, {
    message: "it is slow",
  });
  await until(async () => (await stint.get(id))?.state === "retrying", { message: "it waits" });
  await stint.enqueue(other!, null);
  await until(async () => (await stint.dependencies.get("api"))?.waiting === 1, {
    message: "the other waits, too",
  });
  expect(ran).toEqual(["ask"]);
  const slow = await stint.dependencies.get("api");
  expect(slow).toMatchObject({ effectiveConcurrency: 5 });
  expect(slow!.slowUntil!.getTime()).toBeGreaterThan(Date.now() + 3_000_000);
  expect(await stint.get(id)).toMatchObject({
    attempts: 0,
    interruptions: 1,
    log: [{ outcome: "released" }],
  });
  refuses = false;
  await endPause(fresh);
  await until(async () => (await stint.get(id))?.state === "succeeded", { message: "it continues" });
  await until(() => ran.includes("other"), { message: "the other continues" });
  await worker.stop();
});

test("jobs refused at once halve the concurrency once, and it recovers by 1", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { concurrency: { max: 8, min: 3, recover: "1h" } });
  const call = defineJob("call", { payload: typed<null>(), uses: [api] });
  let hold = gate();
  let running = 0;
  const worker = stint.worker({
    pools: { default: 20 },
    handlers: [
      handle(call, async () => {
        running++;
        await hold.opened;
        running--;
        throw new RateLimitedError({ retryAfter: "1h" });
      }),
    ],
  });
  await worker.start();
  const refuseAll = async (count: number): Promise<void> => {
    await until(() => running === count, { message: `${count} run` });
    const opened = hold;
    hold = gate();
    opened.open();
    await until(async () => (await stint.dependencies.get("api"))?.running === 0, { message: "none runs" });
  };
  const effective = async (): Promise<number | null> =>
    (await stint.dependencies.get("api"))!.effectiveConcurrency;
  await stint.enqueueMany(Array.from({ length: 20 }, () => entry(call, null)));
  await refuseAll(8);
  expect(await effective()).toBe(4);
  await endPause(fresh);
  await refuseAll(4);
  // Half of 4 is less than the declared min.
  expect(await effective()).toBe(3);
  await endPause(fresh);
  await until(() => running === 3, { message: "three run" });
  for (const expected of [4, 5]) {
    await fresh.sql(
      `update stint.dependency set slow_until = null, slowed_at = slowed_at - interval '1 hour', raised_at = raised_at - interval '1 hour', next_at = clock_timestamp()`,
    );
    await look(fresh);
    await until(() => running === expected, { message: `${expected} run` });
    expect(await effective()).toBe(expected);
  }
  hold.open();
  await worker.stop({ drain: 0 });
});

test("a RateLimitedError of a kind with two dependencies slows the one it names", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [mail, sms] = ["mail", "sms"].map((name) => defineDependency(name, { concurrency: 4 }));
  const notify = defineJob("notify", { payload: typed<null>(), uses: [mail!, sms!] });
  const text = defineJob("text", { payload: typed<null>(), uses: ["sms"] });
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [
      handle(notify, () => {
        throw new RateLimitedError({ retryAfter: "1h", dependency: "mail" });
      }),
      handle(text, () => undefined),
    ],
  });
  await worker.start();
  await stint.enqueue(notify, null);
  await until(async () => (await stint.dependencies.get("mail"))?.slowUntil != null, {
    message: "mail is slow",
  });
  await stint.waitFor(await stint.enqueue(text, null));

  expect(await stint.dependencies.get("sms")).toMatchObject({ slowUntil: null, effectiveConcurrency: 4 });
  // A live change ends the slow-down.
  const changed = await stint.dependencies.set("mail", {}, { reason: "they fixed it" });
  expect(changed).toMatchObject({ slowUntil: null, effectiveConcurrency: 4 });
  await worker.stop();
});

test("a pause that is asked for a thousand years counts for a day", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const call = defineJob("call", { payload: typed<null>(), uses: [defineDependency("api", {})] });
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [
      handle(call, () => {
        throw new RateLimitedError({ retryAfter: new Date(32_503_680_000_000) });
      }),
    ],
  });
  await worker.start();
  const { id } = await stint.enqueue(call, null);
  const slow = await until(async () => {
    const found = await stint.dependencies.get("api");
    return found?.slowUntil == null ? undefined : found;
  });
  await worker.stop();

  const tomorrow = Date.now() + 86_400_000 + 60_000;
  expect(slow!.slowUntil!.getTime()).toBeLessThan(tomorrow);
  expect((await stint.get(id))!.runAt.getTime()).toBeLessThan(tomorrow);
});

test("a paused dependency holds back the kinds that use it, and no others", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { concurrency: 4 });
  const call = defineJob("call", { payload: typed<null>(), uses: [api] });
  const plain = defineJob("plain", { payload: typed<null>() });
  let ran = 0;
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(call, () => void ran++), handle(plain, () => undefined)],
  });
  await worker.start();
  await stint.pauses.pause({ dependency: "api" }, { reason: "it is down", actor: "ann" });
  const { id } = await stint.enqueue(call, null);
  await stint.waitFor(await stint.enqueue(plain, null));
  expect(await stint.pauses.list()).toMatchObject([{ scope: "dependency", name: "api", pausedBy: "ann" }]);
  expect(await stint.dependencies.get("api")).toMatchObject({ isPaused: true });
  expect((await stint.get(id))?.state).toBe("ready");
  expect(ran).toBe(0);
  expect(await stint.pauses.resume({ dependency: "api" }, { reason: "it is back" })).toBe(true);
  await stint.waitFor(id);
  await worker.stop();

  expect(await stint.dependencies.audit("api")).toMatchObject([
    { action: "resume" },
    { action: "pause", actor: "ann", reason: "it is down" },
    { action: "declare-dependency" },
  ]);
});
