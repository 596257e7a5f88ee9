/** Admission of tenants: their own limits and policies. */
import { expect, test } from "vitest";
import { defineJob, entry, QueueFullError, typed } from "#stint/index.js";
import type { AdmissionSettings, TenantAdmissionSettings } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const work = defineJob("work", { queue: "main", payload: typed<object>() });
const acme = { tenant: "acme" };

async function limited(
  tenant: TenantAdmissionSettings,
  more: Omit<AdmissionSettings, "tenant"> = {},
): Promise<Fresh> {
  const fresh = await freshSchema();
  const admission = { ...more, tenant };
  await fresh.client().queueSettings.set("main", { admission }, { reason: "test" });
  return fresh;
}

const counted = async (fresh: Fresh): Promise<unknown[]> =>
  await fresh.sql("select status, count::integer as count from stint.enqueues order by status");

const makeOld = async (fresh: Fresh): Promise<unknown> =>
  await fresh.sql("update stint.job set run_at = run_at - interval '2 minutes'");

test("a tenant whose oldest job is too old is rejected, and other tenants are not", async () => {
  const fresh = await limited({ maxAge: "1m" });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {}, acme);
  await makeOld(fresh);

  const refused = stint.enqueue(work, {}, acme);
  await expect(refused).rejects.toThrow(QueueFullError);
  await expect(refused).rejects.toMatchObject({ tenant: "acme", depth: 1 });
  await expect(
    fresh.sql(`select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "acme"}')`),
  ).rejects.toMatchObject({ code: "ST006" });
  await stint.enqueue(work, {}, { tenant: "other" });
  await stint.enqueue(work, {});
  await stint.cancel(id);
  expect((await stint.enqueue(work, {}, acme)).created).toBe(true);
});

test("jobs that have ended do not hide the oldest job of a tenant", async () => {
  const fresh = await limited({ maxAge: "1m" });
  const stint = fresh.client();
  await stint.enqueueMany(Array.from({ length: 250 }, () => entry(work, {}, acme)));
  await fresh.sql("delete from stint.job");
  await stint.enqueue(work, {}, acme);
  await stint.enqueueMany(Array.from({ length: 250 }, () => entry(work, { ended: true }, acme)));
  await fresh.sql("delete from stint.job where payload ? 'ended'");
  await makeOld(fresh);
  const refused = stint.enqueue(work, {}, acme);
  await expect(refused).rejects.toThrow(QueueFullError);
  await expect(refused).rejects.toMatchObject({ depth: 1 });
});

test("defer gives the jobs of a full tenant a later run time, and no others", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "defer", deferBy: "1h" });
  const stint = fresh.client();
  await stint.enqueue(work, {}, acme);
  const [mine, others] = await stint.enqueueMany([
    entry(work, {}, acme),
    entry(work, {}, { tenant: "other" }),
  ]);
  const [keyed] = await stint.enqueueMany([entry(work, {}, { ...acme, dedupe: { key: "k" } })]);
  const [row] = await fresh.sql<{ id: string }>(
    `select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "acme"}') as id`,
  );

  for (const id of [mine!.id, keyed!.id, row!.id]) {
    const job = await stint.get(id);
    expect(job?.state).toBe("scheduled");
    expect(job!.runAt.getTime() - job!.createdAt.getTime()).toBe(3_600_000);
  }
  expect((await stint.get(others!.id))?.state).toBe("ready");
  expect(await counted(fresh)).toEqual([{ status: "deferred-full", count: 3 }]);
});

test("shed cancels jobs of the full tenant only, and records it", async () => {
  for (const [shed, survivors] of [
    ["lowest-priority", ["other", "old", "new"]],
    ["oldest", ["other", "low", "new"]],
  ] as const) {
    for (const strict of [false, true]) {
      const fresh = await limited({ maxDepth: 2, policy: "shed", shed }, strict ? { strict } : {});
      const stint = fresh.client();
      await stint.enqueue(work, {}, { tenant: "other", key: "other", priority: 99 });
      await stint.enqueue(work, {}, { ...acme, key: "old" });
      await stint.enqueue(work, {}, { ...acme, key: "low", priority: 9 });
      await stint.enqueue(work, {}, { ...acme, key: "new" });
      const left = await fresh.sql("select key from stint.job order by created_at");
      expect(left.map(({ key }) => key)).toEqual(survivors);
      expect(await fresh.sql("select state, reason from stint.history")).toEqual([
        { state: "cancelled", reason: 'shed: queue "main" was full for tenant "acme"' },
      ]);
      expect(await counted(fresh)).toEqual([{ status: "shed", count: 1 }]);
      expect(await fresh.sql("select * from stint.admission_check")).toEqual([]);
    }
  }
});

test("warn accepts the jobs of a full tenant, and counts them", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "warn" });
  const stint = fresh.client();
  await stint.enqueueMany([entry(work, {}, acme), entry(work, {}, { tenant: "other" })]);
  await stint.enqueueMany([entry(work, {}, acme), entry(work, {}, acme)]);
  expect((await stint.queues())[0]).toMatchObject({ ready: 4 });
  expect(await counted(fresh)).toEqual([{ status: "over-limit", count: 2 }]);
});

test("two open transactions cannot fill a tenant that sheds beyond its limit", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "shed" }, { strict: true });
  const [one, two] = [await adminClient(fresh.url), await adminClient(fresh.url)];
  const enqueue = forSchema(
    `select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "acme"}')`,
    fresh.schema,
  );
  try {
    await one.query("begin");
    await two.query("begin");
    await one.query(enqueue);
    await two.query(enqueue);
    await one.query("commit");
    await two.query("commit");
    expect(await fresh.sql("select state from stint.jobs order by state")).toEqual([
      { state: "ready" },
      { state: "cancelled" },
    ]);
  } finally {
    await Promise.all([one.end(), two.end()]);
  }
});

test("the policies of the queue and of the tenant apply side by side", async () => {
  const fresh = await limited(
    { maxDepth: 2, policy: "defer", deferBy: "1h" },
    { maxDepth: 3, policy: "reject", strict: false },
  );
  const stint = fresh.client();
  await stint.enqueueMany([1, 2].map(() => entry(work, {}, acme)));
  expect((await stint.get(await stint.enqueue(work, {}, acme)))?.state).toBe("scheduled");
  expect(await stint.admission("main", acme)).toMatchObject({ tenant: { depth: 3 } });
});

test.each([
  ["reject", { admits: false, deferMs: 0 }],
  ["defer", { admits: true, deferMs: 3_600_000 }],
  ["shed", { admits: true, deferMs: 0 }],
  ["warn", { admits: true, deferMs: 0 }],
] as const)("admission reports what the policy %s does to an enqueue", async (policy, expected) => {
  const deferBy = policy === "defer" ? { deferBy: "1h" as const } : {};
  for (const ofTenant of [false, true]) {
    const part = { maxDepth: 2, policy, ...deferBy };
    const fresh = await freshSchema();
    const stint = fresh.client();
    const admission = ofTenant ? { tenant: part } : part;
    await stint.queueSettings.set("main", { admission }, { reason: "test" });
    await stint.enqueue(work, {}, acme);
    await fresh.sql("delete from stint.admission_sample");
    const free = { admits: true, isFull: false, onEnqueue: "accept", deferMs: 0, retryAfterMs: 0 };
    expect(await stint.admission("main", acme)).toMatchObject(free);
    await stint.enqueue(work, {}, acme);
    await fresh.sql("delete from stint.admission_sample");
    expect(await stint.admission("main", acme)).toMatchObject({
      ...expected,
      isFull: true,
      onEnqueue: policy,
      depth: 2,
      tenant: ofTenant ? { ...acme, policy, depth: 2, maxDepth: 2, maxAgeMs: null } : null,
    });
    expect((await stint.admission("main", acme)).retryAfterMs).toBeGreaterThanOrEqual(1_000);
    // Another tenant meets only the limits of the queue.
    expect((await stint.admission("main", { tenant: "other" })).isFull).toBe(!ofTenant);
    expect((await stint.admission("main")).isFull).toBe(!ofTenant);
    await fresh.sql("delete from stint.admission_sample");
    const enqueued = await stint.enqueue(work, {}, acme).catch((error: unknown) => error);
    expect(enqueued instanceof QueueFullError).toBe(!expected.admits);
  }
});

test("admission refuses an unknown option and a tenant that is none", async () => {
  const stint = (await limited({ maxDepth: 1 })).client();
  await expect(stint.admission("main", { tennant: "acme" } as never)).rejects.toThrow(
    'did you mean "tenant"?',
  );
  await expect(stint.admission("main", { tenant: "" })).rejects.toThrow("admission.tenant");
});
