import { expect, test } from "vitest";
import { defineJob, entry, handle, QueueFullError, typed } from "#stint/index.js";
import type { AdmissionSettings, EnqueueOptions } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

// Only an enqueue that adds a job can make a queue exceed its limit.

const work = defineJob("work", { queue: "main", payload: typed<{ version?: number }>() });
const other = defineJob("other", { payload: typed<object>() });
const because = { reason: "test" };
const ownId = "018f0000-0000-7000-8000-000000000001";

async function limited(admission: AdmissionSettings): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh.client().queueSettings.set("main", { admission }, because);
  return fresh;
}

async function live(fresh: Fresh): Promise<number> {
  const [row] = await fresh.sql<{ live: number }>("select count(*)::integer as live from stint.job");
  return row!.live;
}

/** The next enqueue counts the queue anew. */
async function forgetSample(fresh: Fresh): Promise<void> {
  await fresh.sql("delete from stint.admission_sample");
}

const shaped: [string, (key: string) => EnqueueOptions, string][] = [
  ["dedupe", (key) => ({ dedupe: { key, until: "finished" } }), "existing"],
  ["throttle", (key) => ({ throttle: { key, every: "1h" } }), "existing"],
  ["replace", (key) => ({ dedupe: { key, replace: true } }), "replaced"],
  ["debounce", (key) => ({ debounce: { key, wait: "1h" } }), "deferred"],
];

for (const strict of [true, false]) {
  test(`an enqueue that adds no job passes a full ${strict ? "strict " : ""}queue`, async () => {
    const fresh = await limited({ maxDepth: shaped.length, ...(strict ? { strict } : {}) });
    const stint = fresh.client();
    const ids: string[] = [];
    for (const [key, options] of shaped)
      ids.push((await stint.enqueue(work, { version: 1 }, options(key))).id);
    // A slot of a schedule may exceed the limit.
    await stint.schedules.set("tick", { every: "1h", job: work, payload: {} });
    await stint.schedules.runNow("tick", because);
    await forgetSample(fresh);

    for (const [n, [key, options, status]] of shaped.entries()) {
      const id = ids[n]!;
      expect(await stint.enqueue(work, { version: 2 }, options(key))).toMatchObject({ id, status });
      const twice = [entry(work, {}, options(key)), entry(work, {}, options(key))];
      expect(await stint.enqueueMany(twice)).toMatchObject([{ id }, { id }]);
      await expect(stint.enqueue(work, {}, options("new"))).rejects.toThrow(QueueFullError);
    }
  });
}

test("several enqueues of one new key need one place", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const stint = fresh.client();
  const one = entry(work, {}, { dedupe: { key: "k" } });
  const [first, second] = await stint.enqueueMany([one, one]);
  expect(second!.id).toBe(first!.id);
});

test("a job that replaces behind a running one needs a place", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true });
  const stint = fresh.client();
  const options: EnqueueOptions = { dedupe: { key: "k", replace: true } };
  const { id } = await stint.enqueue(work, { version: 1 }, options);
  await fresh.sql(
    `update stint.job set state = 'running', lease_id = gen_random_uuid(), lease_until = now() + interval '1 hour', claimed_at = now(), worker = 'w'
     where id = $1`,
    [id],
  );
  await expect(stint.enqueue(work, { version: 2 }, options)).rejects.toThrow(QueueFullError);
  expect(await live(fresh)).toBe(1);
});

test("an id of the caller's own does not pass a full queue, unless its job exists", async () => {
  const fresh = await limited({ maxDepth: 2, tenant: { maxDepth: 1 } });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {}, { tenant: "acme" });
  await expect(stint.enqueue(work, {}, { tenant: "acme", id: ownId })).rejects.toThrow(QueueFullError);
  await stint.enqueue(work, {});
  await forgetSample(fresh);

  await expect(stint.enqueue(work, {}, { id: ownId })).rejects.toThrow(QueueFullError);
  const sql = `select stint.enqueue('work', '{}', '{"queue": "main", "id": "${ownId}"}')`;
  await expect(fresh.sql(sql)).rejects.toMatchObject({ code: "ST006" });
  expect(await stint.enqueue(work, {}, { tenant: "acme", id })).toMatchObject({ id });
});

test("defer also delays a job whose run time has come or comes too soon", async () => {
  const fresh = await limited({ maxDepth: 1, policy: "defer", deferBy: "1h" });
  const stint = fresh.client();
  await stint.enqueue(work, {});
  const hour = 3_600_000;
  for (const options of [{ runAt: new Date(Date.now() - hour) }, { runAt: new Date(Date.now() + 60_000) }]) {
    await forgetSample(fresh);
    const { id } = await stint.enqueue(work, {}, options);
    const job = await stint.get(id);
    expect(job!.state).toBe("scheduled");
    expect(job!.runAt.getTime()).toBeGreaterThan(Date.now() + hour / 2);
  }
  await forgetSample(fresh);
  const later = new Date(Date.now() + 2 * hour);
  const { id } = await stint.enqueue(work, {}, { runAt: later });
  expect((await stint.get(id))!.runAt).toEqual(later);
});

test("admission of a strict queue is exact at every moment", async () => {
  const fresh = await limited({ maxDepth: 2, strict: true });
  const stint = fresh.client();
  expect(await stint.admission("main")).toMatchObject({ admits: true, depth: 0 });
  const jobs = await stint.enqueueMany([entry(work, {}), entry(work, {})]);
  expect(await stint.admission("main")).toMatchObject({ admits: false, depth: 2 });
  await stint.cancel(jobs[0]!.id, because);
  expect(await stint.admission("main")).toMatchObject({ admits: true, depth: 1 });
});

for (const how of ["live", "in code", "for a pattern"]) {
  test(`a limit per tenant that is set ${how} counts the jobs that are there`, async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    await stint.enqueueMany([1, 2].map(() => entry(work, {}, { tenant: "acme" })));
    const admission: AdmissionSettings = { tenant: { maxDepth: 2 } };
    if (how === "in code")
      await startWorker(fresh.client({ queues: { main: { admission } } }), {
        handlers: [handle(other, () => undefined)],
      });
    else await stint.queueSettings.set(how === "live" ? "main" : "m*", { admission }, because);

    await expect(stint.enqueue(work, {}, { tenant: "acme" })).rejects.toThrow(QueueFullError);
    await stint.enqueue(work, {}, { tenant: "other" });
  });
}

test("jobs that Stint makes count for their tenant, and are never refused", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 } });
  const stint = fresh.client();
  const parent = defineJob("parent", { payload: typed<object>() });
  await startWorker(stint, {
    handlers: [
      handle(parent, ({ spawn, continueWith }) => {
        spawn(work, {}, { tenant: "spawned" });
        spawn(work, {}, { tenant: "spawned" });
        return continueWith(work, {}, { tenant: "continued" });
      }),
    ],
  });
  await stint.schedules.set("tick", {
    every: "1h",
    job: work,
    payload: {},
    options: { tenant: "scheduled" },
  });
  await stint.schedules.runNow("tick", because);
  const { id } = await stint.enqueue(parent, {});
  await until(async () => (await stint.get(id))!.state === "succeeded", { message: "the parent succeeded" });

  expect(await live(fresh)).toBe(4);
  for (const tenant of ["spawned", "continued", "scheduled"])
    await expect(stint.enqueue(work, {}, { tenant })).rejects.toThrow(QueueFullError);
});

test("open transactions cannot exceed the limit of a tenant in a strict queue", async () => {
  const fresh = await limited({ maxDepth: 100, strict: true, tenant: { maxDepth: 2 } });
  const sessions = await Promise.all([1, 2, 3, 4].map(() => adminClient(fresh.url)));
  const enqueue = (tenant: string): string =>
    forSchema(`select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "${tenant}"}')`, fresh.schema);
  try {
    for (const session of sessions) await session.query("begin");
    for (const [n, session] of sessions.entries()) {
      await session.query(enqueue("acme"));
      await session.query(enqueue(`own-${n}`));
    }
    const commits = await Promise.allSettled(sessions.map((session) => session.query("commit")));
    const refused = commits.filter((commit) => commit.status === "rejected");
    expect(refused).toMatchObject([{ reason: { code: "ST006" } }, { reason: { code: "ST006" } }]);
    expect(await live(fresh)).toBe(4);
  } finally {
    await Promise.all(sessions.map((session) => session.end()));
  }
});

test("an enqueue that is rolled back to a savepoint leaves its place", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true, tenant: { maxDepth: 1 } });
  const stint = fresh.client();
  const session = await adminClient(fresh.url);
  try {
    await session.query("begin");
    await session.query("savepoint one");
    await stint.in(session).enqueue(work, {}, { tenant: "acme" });
    await session.query("rollback to savepoint one");
    await stint.in(session).enqueue(work, {}, { tenant: "acme" });
    await session.query("savepoint two");
    await expect(stint.in(session).enqueue(work, {}, { tenant: "acme" })).rejects.toThrow(QueueFullError);
    await session.query("rollback to savepoint two");
    await session.query("commit");
    expect(await live(fresh)).toBe(1);
  } finally {
    await session.end();
  }
});
