import { expect, test } from "vitest";
import { defineJob, entry, handle, InvalidOptionError, QueueFullError, typed } from "#stint/index.js";
import type { AdmissionSettings } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, sharedSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const other = defineJob("other", { queue: "other", payload: typed<object>() });
const work = defineJob("work", { queue: "main", payload: typed<object>() });
const shared = sharedSchema();

async function limited(admission: AdmissionSettings): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh.client().queueSettings.set("main", { admission }, { reason: "test" });
  return fresh;
}

async function live(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ live: number }>("select count(*)::integer as live from stint.job");
  return row!.live;
}

test("a full queue rejects an enqueue with its depth, its age and a retry hint", async () => {
  const fresh = await limited({ maxDepth: 2, strict: true });
  const stint = fresh.client();
  await stint.enqueueMany([entry(work, {}), entry(work, {})]);
  const refused = stint.enqueue(work, {});

  await expect(refused).rejects.toThrow(QueueFullError);
  await expect(refused).rejects.toMatchObject({
    code: "QUEUE_FULL",
    queue: "main",
    depth: 2,
    ageMs: expect.any(Number) as number,
    retryAfterMs: expect.any(Number) as number,
  });
  expect(await live(fresh)).toBe(2);
  await expect(fresh.sql(`select stint.enqueue('work', '{}', '{"queue": "main"}')`)).rejects.toMatchObject({
    code: "ST006",
  });
});

test("one rejected call among coalesced calls fails only its own caller", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const stint = fresh.client();
  const free = defineJob("free", { queue: "free", payload: typed<object>() });
  const results = await Promise.allSettled([
    ...Array.from({ length: 4 }, () => stint.enqueue(work, {})),
    ...Array.from({ length: 4 }, () => stint.enqueue(free, {})),
  ]);
  expect(results.slice(4).every(({ status }) => status === "fulfilled")).toBe(true);
  expect(results.slice(0, 4).filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("an enqueue that is sent again passes only if it happened, or fits", async () => {
  const fresh = await limited({ maxDepth: 2, strict: true });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {});
  const again = (job: string): Promise<unknown> =>
    fresh.sql("select * from stint.enqueue_rows($1, false)", [
      JSON.stringify([{ id: job, kind: "work", queue: "main", payload: "{}", again: true }]),
    ]);

  const first = "018f0000-0000-7000-8000-000000000001";
  await again(first);
  await again(first);
  await again(id);
  expect(await live(fresh)).toBe(2);
  await expect(again("018f0000-0000-7000-8000-000000000002")).rejects.toMatchObject({ code: "ST006" });
  expect(await live(fresh)).toBe(2);
});

test("a strict queue never exceeds its limit, however many enqueue at once", async () => {
  const fresh = await limited({ maxDepth: 25, strict: true });
  const clients = Array.from({ length: 4 }, () => fresh.client());
  let most = 0;
  const over = new AbortController();
  const watch = (async () => {
    while (!over.signal.aborted) most = Math.max(most, await live(fresh));
  })();
  const results = await Promise.allSettled(
    Array.from({ length: 80 }, (_, n) => clients[n % 4]!.enqueueMany([entry(work, {}), entry(work, {})])),
  );
  over.abort();
  await watch;
  const admitted = results.filter(({ status }) => status === "fulfilled").length;
  expect([admitted * 2 <= 25, most <= 25, (await live(fresh)) <= 25]).toEqual([true, true, true]);
  expect(admitted).toBeGreaterThan(0);
});

test("two open transactions cannot fill a strict queue beyond its limit", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const [one, two] = [await adminClient(fresh.url), await adminClient(fresh.url)];
  const enqueue = forSchema(`select stint.enqueue('work', '{}', '{"queue": "main"}')`, fresh.schema);
  try {
    await one.query("begin");
    await two.query("begin");
    await one.query(enqueue);
    await two.query(enqueue);
    await one.query("commit");
    await expect(two.query("commit")).rejects.toMatchObject({ code: "ST006" });
    expect(await live(fresh)).toBe(1);
    // The transaction is over, and its connection works.
    expect((await two.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  } finally {
    await Promise.all([one.end(), two.end()]);
  }
});

test("a rejected enqueue fails its transaction, and no row of it is written", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const stint = fresh.client();
  await stint.enqueue(work, {});
  const tx = await adminClient(fresh.url);
  try {
    await tx.query("begin");
    await tx.query(forSchema("insert into stint.kind (name, queue) values ('mine', 'main')", fresh.schema));
    await expect(stint.in(tx).enqueue(work, {})).rejects.toThrow(QueueFullError);
    await tx.query("commit");
    expect(await fresh.sql("select from stint.kind where name = 'mine'")).toEqual([]);
  } finally {
    await tx.end();
  }
});

test("a queue whose oldest job is too old rejects, until that job has ended", async () => {
  const fresh = await limited({ maxAge: "1m" });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {});
  await fresh.sql("update stint.job set run_at = run_at - interval '2 minutes'");
  await until(async () => !(await stint.admission("main")).admits, { message: "the sample shows it" });
  await expect(stint.enqueue(work, {})).rejects.toThrow(QueueFullError);
  expect(await stint.admission("main")).toMatchObject({ admits: false, policy: "reject", maxAgeMs: 60_000 });
  await stint.cancel(id);
  await until(async () => (await stint.admission("main")).admits, { message: "it admits again" });
  expect((await stint.enqueue(work, {})).created).toBe(true);
});

test("defer accepts the job with a later run time", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "defer", deferBy: "1h" });
  const stint = fresh.client();
  await stint.enqueue(work, {});
  await until(async () => (await stint.admission("main")).isFull, { message: "the sample shows it" });
  const { id } = await stint.enqueue(work, {});
  const { id: many } = (await stint.enqueueMany([entry(work, {}, { dedupe: { key: "k" } })]))[0]!;
  for (const deferred of [id, many]) {
    const job = await stint.get(deferred);
    expect(job?.state).toBe("scheduled");
    expect(job!.runAt.getTime() - job!.createdAt.getTime()).toBe(3_600_000);
  }
});

test("shed leaves a job whose handler is in the middle of its work", async () => {
  const fresh = await limited({ maxDepth: 2, policy: "shed", strict: true });
  const stint = fresh.client();
  const { worker } = await startWorker(stint, {
    pools: { main: 1 },
    handlers: [
      handle(work, async ({ step, sleep }) => {
        await step("charge", () => 1);
        await sleep("1h");
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {}, { key: "half", priority: 9 });
  await until(async () => (await stint.get(id))?.state === "parked", { message: "it sleeps" });
  await worker.stop();
  await stint.runNow(id);

  await stint.enqueue(work, {}, { key: "old" });
  await stint.enqueue(work, {}, { key: "new" });
  const left = await fresh.sql("select key from stint.job order by created_at");
  expect(left.map(({ key }) => key)).toEqual(["half", "new"]);
});

test("shed cancels the lowest priority first, or the oldest, and records it", async () => {
  for (const [shed, survivors] of [
    ["lowest-priority", ["old", "new"]],
    ["oldest", ["low", "new"]],
  ] as const) {
    const fresh = await limited({ maxDepth: 2, policy: "shed", shed, strict: true });
    const stint = fresh.client();
    await stint.enqueue(work, {}, { key: "old" });
    await stint.enqueue(work, {}, { key: "low", priority: 9 });
    await stint.enqueue(work, {}, { key: "new" });
    const left = await fresh.sql("select key from stint.job order by created_at");
    expect(left.map(({ key }) => key)).toEqual(survivors);
    const [gone] = await fresh.sql("select state, reason from stint.history");
    expect(gone).toEqual({ state: "cancelled", reason: 'shed: queue "main" was full' });
    expect(await fresh.sql("select status, count::integer as count from stint.enqueues")).toEqual([
      { status: "shed", count: 1 },
    ]);
  }
});

test("warn accepts the job and counts the enqueue", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "warn" });
  const stint = fresh.client();
  await stint.enqueue(work, {});
  await until(async () => (await stint.admission("main")).isFull, { message: "the sample shows it" });
  await stint.enqueue(work, {});
  expect(await live(fresh)).toBe(2);
  expect(await fresh.sql("select status, count::integer as count from stint.enqueues")).toEqual([
    { status: "over-limit", count: 1 },
  ]);
});

test("a tenant at its limit is rejected, and other tenants are not", async () => {
  const fresh = await limited({ tenant: { maxDepth: 2 } });
  const stint = fresh.client();
  const jobs = await stint.enqueueMany([1, 2].map(() => entry(work, {}, { tenant: "acme" })));
  await expect(stint.enqueue(work, {}, { tenant: "acme" })).rejects.toMatchObject({
    tenant: "acme",
    depth: 2,
  });
  await stint.enqueue(work, {}, { tenant: "other" });
  await stint.enqueue(work, {});
  await stint.cancel(jobs[0]!.id);
  expect((await stint.enqueue(work, {}, { tenant: "acme" })).created).toBe(true);
});

test("a repeat of an enqueue whose outcome is unknown passes a full queue", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {});
  expect((await stint.enqueue(work, {}, { id })).id).toBe(id);
  expect(await live(fresh)).toBe(1);
});

test("settings apply to queues of a pattern, and declared ones come from code", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ queues: { "ma*": { admission: { maxDepth: 1, strict: true } } } });
  await startWorker(stint, { pools: { other: 1 }, handlers: [handle(other, () => undefined)] });
  await stint.enqueue(work, {});
  await expect(stint.enqueue(work, {})).rejects.toThrow(QueueFullError);
  expect(await stint.queueSettings.list()).toMatchObject([
    { queue: "ma*", admission: { maxDepth: 1, policy: "reject", strict: true }, targetAgeMs: null },
  ]);
});

test("a queue without settings admits everything and reports how full it is", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(work, {});
  expect(await stint.admission("main")).toMatchObject({
    admits: true,
    policy: null,
    depth: 1,
    retryAfterMs: 0,
  });
});

test.each<[unknown, string]>([
  [{}, "needs maxDepth, maxAge, maxDelay or tenant"],
  [{ maxDelay: {} }, "1 to 16 dependencies"],
  [{ maxDelay: "1h" }, "object"],
  [{ maxDelay: { mail: 0 } }, "maxDelay.mail"],
  [{ maxDelay: { mail: "soon" } }, "maxDelay.mail"],
  [{ maxDelay: { "no name": "1h" } }, "maxDelay"],
  [{ maxDelay: { mail: "1h" }, policy: "shed" }, "needs maxDepth"],
  [{ maxDelay: { mail: "1h" }, strict: true }, "needs maxDepth or tenant"],
  [{ maxDepth: 0 }, "maxDepth"],
  [{ maxDepth: -1 }, "maxDepth"],
  [{ maxDepth: NaN }, "maxDepth"],
  [{ maxDepth: 1.5 }, "maxDepth"],
  [{ maxAge: 0 }, "maxAge"],
  [{ maxDepth: 1, policy: "rejct" }, 'did you mean "reject"?'],
  [{ maxDepth: 1, strict: "yes" }, "strict"],
  [{ maxAge: "1m", strict: true }, "needs maxDepth"],
  [{ maxDepth: 1, strict: true, policy: "warn" }, "strict"],
  [{ maxDepth: 1, deferBy: "1m" }, "deferBy"],
  [{ maxDepth: 1, shed: "oldest" }, "shed"],
  [{ maxAge: "1m", policy: "shed" }, "needs maxDepth"],
  [{ tenant: {} }, "maxDepth"],
  [{ tenant: { maxDepth: 1, maxage: 1 } }, 'did you mean "maxAge"?'],
  [{ tenant: { maxDepth: 1, maxDelay: { mail: 1 } } }, "maxDelay"],
  [{ tenant: { maxDepth: 0 } }, "tenant.maxDepth"],
  [{ tenant: { maxAge: -1 } }, "tenant.maxAge"],
  [{ tenant: { maxDepth: 1, policy: "sheed" } }, 'did you mean "shed"?'],
  [{ tenant: { maxDepth: 1, deferBy: "1m" } }, "tenant.deferBy"],
  [{ tenant: { maxDepth: 1, shed: "oldest" } }, "tenant.shed"],
  [{ tenant: { maxAge: "1m", policy: "shed" } }, "needs maxDepth"],
  [{ tenant: { maxAge: "1m" }, strict: true }, "needs maxDepth"],
  [{ tenant: { maxDepth: 1, policy: "warn" }, strict: true }, "in tenant, too"],
  [{ maxdepth: 1 }, 'did you mean "maxDepth"?'],
])("admission of %j is refused", async (admission, message) => {
  const stint = shared().client();
  const change = { admission: admission as AdmissionSettings };
  const refused = stint.queueSettings.set("main", change, { reason: "test" });
  await expect(refused).rejects.toThrow(InvalidOptionError);
  await expect(stint.queueSettings.set("main", change, { reason: "test" })).rejects.toThrow(message);
  const sql = `select stint.set_queue('main', jsonb_build_object('admission', $1::jsonb), 'test')`;
  await expect(shared().sql(sql, [JSON.stringify(admission)])).rejects.toMatchObject({ code: "22023" });
  expect(await stint.queueSettings.list()).toEqual([]);
});

test("settings in SQL refuse integers with a decimal point, which no cast reads", async () => {
  for (const settings of [
    '{"admission": {"maxDepth": 10.0}}',
    '{"admission": {"tenant": {"maxDepth": 10.0}}}',
    '{"fair": {"by": "tenant", "weights": {"acme": 2.0}}}',
  ])
    await expect(
      shared().sql(`select stint.set_queue('main', $1::text::jsonb, 'test')`, [settings]),
    ).rejects.toMatchObject({ code: "22023" });
  expect(await shared().client().queueSettings.list()).toEqual([]);
});
