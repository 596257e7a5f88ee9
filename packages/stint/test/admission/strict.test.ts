/** Strict admission by tenant, and of replayed jobs. */
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, QueueFullError, typed } from "#stint/index.js";
import type { AdmissionSettings } from "#stint/index.js";
import { forSchema } from "#stint/db/statement.js";
import { newId } from "#stint/runtime/new-id.js";
import { tendAdmission } from "#stint/sql/admission.js";
import { cancel, replay } from "#stint/sql/operate.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { operationsOf } from "../inspect/inspectors.ts";
import { sentBy } from "../sql/statements.ts";

const work = defineJob("work", { queue: "main", payload: typed<object>() });

async function limited(admission: AdmissionSettings): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh.client().queueSettings.set("main", { admission }, { reason: "test" });
  return fresh;
}

const keys = async (fresh: Fresh): Promise<unknown[]> =>
  (await fresh.sql("select key from stint.job order by key")).map(({ key }) => key);

async function sessions(fresh: Fresh): Promise<[Client, Client]> {
  const both: [Client, Client] = [await adminClient(fresh.url), await adminClient(fresh.url)];
  onTestFinished(async () => void (await Promise.all(both.map((each) => each.end()))));
  return both;
}

async function replayIn(session: Client, fresh: Fresh, id: string): Promise<void> {
  const [sent] = await sentBy((db) => replay(db, id, { auditId: newId(), actor: "ada", reason: "test" }));
  await session.query(forSchema(sent!.statement.text, fresh.schema), [...sent!.values]);
}

/** Wait until this session waits for the lock of another one. */
async function waits(fresh: Fresh, session: Client): Promise<void> {
  const { processID } = session as unknown as { processID: number };
  await until(
    async () =>
      (await fresh.sql("select cardinality(pg_blocking_pids($1)) > 0 as waits", [processID]))[0]?.["waits"],
    { message: "the session waits" },
  );
}

test("two open transactions cannot fill a strict queue beyond the limit of a tenant", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 }, strict: true });
  const [one, two] = await sessions(fresh);
  const enqueue = (tenant: string): string =>
    forSchema(`select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "${tenant}"}')`, fresh.schema);
  for (const each of [one, two]) await each.query("begin");
  await one.query(enqueue("acme"));
  await two.query(enqueue("acme"));
  await two.query(enqueue("other"));
  await one.query("commit");
  await expect(two.query("commit")).rejects.toMatchObject({ code: "ST006" });
  expect(await fresh.sql("select tenant from stint.job")).toEqual([{ tenant: "acme" }]);
});

/** How the second enqueue ends: it waits for the transaction of the first, which commits then. */
async function outcomeAfter(
  fresh: Fresh,
  first: Client,
  second: { session: Client; text: string },
): Promise<string> {
  const outcome = second.session.query(second.text).then(
    () => "accepted",
    (error: { code: string }) => error.code,
  );
  await waits(fresh, second.session);
  await first.query("commit");
  return await outcome;
}

test("a strict queue keeps the limit of a tenant with SET CONSTRAINTS IMMEDIATE, too", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 }, strict: true });
  const [one, two] = await sessions(fresh);
  const enqueue = forSchema(
    `select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "acme"}')`,
    fresh.schema,
  );
  for (const each of [one, two]) await each.query("begin; set constraints all immediate");
  await one.query(enqueue);
  expect(await outcomeAfter(fresh, one, { session: two, text: enqueue })).toBe("ST006");
  expect(await fresh.sql("select tenant from stint.job")).toHaveLength(1);
});

test("a dedupe key that becomes free meanwhile makes no tenant exceed its limit", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 }, strict: true });
  const { id } = await fresh.client().enqueue(work, {}, { tenant: "acme", dedupe: { key: "k" } });
  const [one, two] = await sessions(fresh);
  const enqueue = (more: string): string =>
    forSchema(
      `select stint.enqueue('work', '{}', '{"queue": "main", "tenant": "acme"${more}}')`,
      fresh.schema,
    );
  await one.query("begin");
  const [sent] = await sentBy((db) => cancel(db, id, { auditId: newId(), actor: "ada", reason: "test" }));
  await one.query(forSchema(sent!.statement.text, fresh.schema), [...sent!.values]);
  await one.query(enqueue(""));
  const second = { session: two, text: enqueue(`, "dedupe": {"key": "k"}`) };
  expect(await outcomeAfter(fresh, one, second)).toBe("ST006");
  expect(await fresh.sql("select tenant from stint.job")).toHaveLength(1);
});

test("an enqueue of a tenant that is sent again counts, and passes if it happened", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 }, strict: true });
  const again = (id: string): Promise<unknown> =>
    fresh.sql("select * from stint.enqueue_rows($1, false)", [
      JSON.stringify([{ id, kind: "work", queue: "main", tenant: "a", payload: "{}", again: true }]),
    ]);
  const first = "018f0000-0000-7000-8000-000000000001";
  await again(first);
  await again(first);
  await expect(again("018f0000-0000-7000-8000-000000000002")).rejects.toMatchObject({ code: "ST006" });
  await expect(fresh.client().enqueue(work, {}, { tenant: "a" })).rejects.toMatchObject({ tenant: "a" });
});

test("a strict queue refuses a replay that does not fit, and takes one that does", async () => {
  const fresh = await limited({ maxDepth: 2, strict: true });
  const stint = fresh.client();
  const gone = [];
  for (const key of ["a", "b"]) gone.push(await stint.enqueue(work, {}, { key }));
  for (const { id } of gone) await stint.cancel(id);
  await stint.enqueue(work, {}, { key: "c" });

  await stint.replay(gone[0]!.id, { reason: "test" });
  await expect(stint.replay(gone[1]!.id, { reason: "test" })).rejects.toThrow(QueueFullError);
  expect(await keys(fresh)).toEqual(["a", "c"]);
  expect((await stint.get(gone[1]!.id))?.state).toBe("cancelled");
  expect((await stint.audit(gone[1]!.id)).map(({ action }) => action)).toEqual(["cancel"]);
});

test("a replay makes room in a strict queue that sheds", async () => {
  const fresh = await limited({ maxDepth: 1, strict: true, policy: "shed", shed: "lowest-priority" });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {}, { key: "old" });
  await stint.cancel(id);
  await stint.enqueue(work, {}, { key: "low", priority: 9 });
  await stint.replay(id, { reason: "test" });
  expect(await keys(fresh)).toEqual(["old"]);
});

test("a replayed job counts for its tenant again; a queue that is not strict takes it", async () => {
  for (const strict of [true, false]) {
    const fresh = await limited({ tenant: { maxDepth: 1 }, strict });
    const stint = fresh.client();
    const { id } = await stint.enqueue(work, {}, { tenant: "a" });
    await stint.cancel(id);
    await tendAdmission(fresh.db, null, 100);
    expect(await fresh.sql("select from stint.admitted")).toEqual([]);
    await stint.replay(id, { reason: "test" });
    await expect(stint.enqueue(work, {}, { tenant: "a" })).rejects.toMatchObject({ tenant: "a", depth: 1 });

    const { id: other } = await stint.enqueue(work, {}, { tenant: "b" });
    await stint.cancel(other);
    await stint.enqueue(work, {}, { tenant: "b" });
    const refused = await stint.replay(other, { reason: "test" }).then(
      () => undefined,
      (error: QueueFullError) => error.tenant,
    );
    expect(refused).toBe(strict ? "b" : undefined);
  }
});

test("upkeep deletes no row of a job that is being replayed", async () => {
  const fresh = await limited({ tenant: { maxDepth: 1 }, strict: true });
  const stint = fresh.client();
  const { id } = await stint.enqueue(work, {}, { tenant: "a" });
  await stint.cancel(id);
  const [one, two] = await sessions(fresh);
  await one.query("begin");
  await replayIn(one, fresh, id);
  // It skips the row that the replay has locked.
  await tendAdmission(fresh.db, null, 100);
  await one.query("commit");
  await expect(stint.enqueue(work, {}, { tenant: "a" })).rejects.toMatchObject({ tenant: "a" });

  // The other way round: the replay waits for the one that deletes, and adds the row again.
  await stint.cancel(id);
  await one.query("begin");
  await one.query(forSchema("select stint.tend_admission(null, 100, 0)", fresh.schema));
  const replayed = two.query("begin").then(async () => await replayIn(two, fresh, id));
  await waits(fresh, two);
  await one.query("commit");
  await replayed;
  await two.query("commit");
  await expect(stint.enqueue(work, {}, { tenant: "a" })).rejects.toMatchObject({ tenant: "a" });
});

test("a bulk replay into a full strict queue ends with the reason, and exceeds nothing", async () => {
  const fresh = await limited({ maxDepth: 150, strict: true });
  const stint = fresh.client();
  const jobs = await stint.enqueueMany(Array.from({ length: 150 }, () => entry(work, {})));
  for (const { id } of jobs.slice(0, 120)) await stint.cancel(id);
  await stint.enqueueMany(Array.from({ length: 20 }, () => entry(work, {})));
  const operations = operationsOf(fresh);
  const why = { reason: "test", actor: "ada" };
  const { id } = await operations.begin("replay", { state: "cancelled", since: new Date(0) }, why);
  await until(async () => (await operations.operation(id))?.state !== "running", { message: "it ended" });
  expect(await operations.operation(id)).toMatchObject({
    state: "abandoned",
    error: "a strict queue is full (SQLSTATE ST006)",
  });
  const [row] = await fresh.sql("select count(*)::integer as live from stint.job");
  expect(row).toEqual({ live: 150 });
});

test("jobs that are added to a batch do not exceed a strict queue", async () => {
  const fresh = await limited({ maxDepth: 3, strict: true, tenant: { maxDepth: 1 } });
  const stint = fresh.client();
  const summary = defineJob("summary", { payload: typed<object>() });
  const batch = await stint.batch([entry(work, {})], { onComplete: entry(summary, {}), open: true });

  const add = async (...tenants: (string | undefined)[]) =>
    await stint.flows.add(
      batch.id,
      tenants.map((tenant) => entry(work, {}, tenant === undefined ? {} : { tenant })),
    );
  await expect(add(undefined, undefined, undefined)).rejects.toThrow(QueueFullError);
  await expect(add("acme", "acme")).rejects.toMatchObject({ code: "QUEUE_FULL", tenant: "acme" });
  expect(await fresh.sql("select from stint.job where queue = 'main'")).toHaveLength(1);
  await add("acme", undefined);
  expect(await fresh.sql("select from stint.job where queue = 'main'")).toHaveLength(3);
  expect(await stint.flows.get(batch.id)).toMatchObject({ jobs: expect.objectContaining({ length: 4 }) });
});
