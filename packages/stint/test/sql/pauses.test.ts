import { expect, test } from "vitest";
import type { PauseId } from "#stint/model/pause.js";
import { newId } from "#stint/runtime/new-id.js";
import { cancel } from "#stint/sql/operate.js";
import { holdPaused, knownPauses, liftPaused, pause, resume } from "#stint/sql/pauses.js";
import type { ChangeAudit } from "#stint/sql/audit.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { forSchema } from "#stint/db/statement.js";
import { until } from "../support/until.ts";
import { addOne, auditInfo, expire, take } from "./jobs.ts";
import { rescue } from "#stint/sql/rescue.js";

const acme: PauseId = { scope: "tenant", name: "acme" };
const because = (): ChangeAudit => ({ auditId: newId(), actor: "tester", reason: "because" });

async function jobs(fresh: Fresh): Promise<Record<string, unknown>[]> {
  return await fresh.sql(
    `select state, park_reason, attempts, lease_id is null as free, (select sum(parked)::integer from stint.tally_delta) as parked from stint.job order by id`,
  );
}

test("a stale fence parks nothing", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { tenant: "acme" });
  const [job] = await take(fresh.db);
  await pause(fresh.db, acme, null, because());
  await expire(fresh, job!.fence.job);
  await rescue(fresh.db, { limit: 10, maxCrashes: 3 });

  expect((await holdPaused(fresh.db, [{ fence: job!.fence, pause: acme }])).size).toBe(0);
  expect(await jobs(fresh)).toMatchObject([{ state: "ready", park_reason: null }]);
});

test("a job whose cancel was requested is not parked", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { tenant: "acme" });
  const [job] = await take(fresh.db);
  await pause(fresh.db, acme, null, because());
  await cancel(fresh.db, id, auditInfo());

  expect((await holdPaused(fresh.db, [{ fence: job!.fence, pause: acme }])).size).toBe(0);
  expect(await jobs(fresh)).toMatchObject([{ state: "running" }]);
});

test("a job is not parked for a pause that is over or was never made", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { tenant: "acme" });
  const [job] = await take(fresh.db);
  const held = [{ fence: job!.fence, pause: acme }];
  expect((await holdPaused(fresh.db, held)).size).toBe(0);
  await pause(fresh.db, acme, null, because());
  await resume(fresh.db, acme, because());
  expect((await holdPaused(fresh.db, held)).size).toBe(0);
  expect(await jobs(fresh)).toMatchObject([{ state: "running" }]);
});

test("a job that is being parked while its pause is resumed is lifted", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { tenant: "acme" });
  const [job] = await take(fresh.db);
  await pause(fresh.db, acme, null, because());
  const slow = await adminClient(fresh.url);
  try {
    // A worker that has parked the job and has not committed.
    await slow.query("begin");
    await slow.query(
      forSchema(`select from stint.pause where scope = 'tenant' and name = 'acme' for share`, fresh.schema),
    );
    const resumed = resume(fresh.db, acme, because());
    await until(
      async () =>
        (
          await fresh.sql(
            `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%.resume(%'`,
            [fresh.schema],
          )
        ).length > 0,
      { message: "the resume waits for the worker" },
    );
    await slow.query(
      forSchema(
        `update stint.job set state = 'parked', park_reason = 'paused', lease_id = null, lease_until = null`,
        fresh.schema,
      ),
    );
    await slow.query(
      forSchema(`insert into stint.paused_job values ('${job!.fence.job}', 'tenant', 'acme')`, fresh.schema),
    );
    await slow.query("commit");
    expect(await resumed).toBe(true);
  } finally {
    await slow.end();
  }
  expect(await liftPaused(fresh.db, 10)).toEqual({ queues: ["main"], more: false });
  expect(await jobs(fresh)).toMatchObject([{ state: "ready", park_reason: null }]);
  expect(await knownPauses(fresh.db)).toEqual([]);
});

test("parked jobs are lifted in batches, and the pause is deleted after the last", async () => {
  const fresh = await freshSchema();
  for (let n = 0; n < 5; n += 1) await addOne(fresh.db, { tenant: "acme" });
  const taken = await take(fresh.db);
  await pause(fresh.db, acme, null, because());
  const parked = await holdPaused(
    fresh.db,
    taken.map(({ fence }) => ({ fence, pause: acme })),
  );
  expect(parked.size).toBe(5);
  expect((await jobs(fresh))[0]).toEqual({
    state: "parked",
    park_reason: "paused",
    attempts: 0,
    free: true,
    parked: 5,
  });
  // One of them is cancelled meanwhile: its row must not keep the pause.
  await cancel(fresh.db, taken[0]!.fence.job, auditInfo());
  await resume(fresh.db, acme, because());
  expect(await liftPaused(fresh.db, 2)).toMatchObject({ more: true });
  expect(await liftPaused(fresh.db, 2)).toMatchObject({ more: true });
  expect(await liftPaused(fresh.db, 2)).toMatchObject({ more: false });
  const left = await jobs(fresh);
  expect([left.length, left[0]]).toEqual([
    4,
    { state: "ready", park_reason: null, attempts: 0, free: true, parked: 0 },
  ]);
  expect(await fresh.sql("select from stint.pause union all select from stint.paused_job")).toEqual([]);
});

test("a job that another session has locked holds up the jobs of no other pause", async () => {
  const fresh = await freshSchema();
  const other: PauseId = { scope: "tenant", name: "other" };
  for (const { name } of [acme, acme, other]) await addOne(fresh.db, { tenant: name });
  const taken = await take(fresh.db);
  for (const id of [acme, other]) await pause(fresh.db, id, null, because());
  const held = taken.map((job) => ({ fence: job.fence, pause: job.tenant === "acme" ? acme : other }));
  expect((await holdPaused(fresh.db, held)).size).toBe(3);
  for (const id of [acme, other]) await resume(fresh.db, id, because());
  const slow = await adminClient(fresh.url);
  await slow.query("begin");
  await slow.query(
    forSchema(`select from stint.job where id = '${taken[0]!.fence.job}' for update`, fresh.schema),
  );

  expect(await liftPaused(fresh.db, 10)).toMatchObject({ more: true });
  expect((await jobs(fresh)).map(({ state }) => state)).toEqual(["parked", "ready", "ready"]);
  await slow.end();
  expect(await liftPaused(fresh.db, 10)).toMatchObject({ more: false });
  expect((await jobs(fresh)).map(({ state }) => state)).toEqual(["ready", "ready", "ready"]);
});

test("a repeat of a pause or resume with the same id changes nothing", async () => {
  const fresh = await freshSchema();
  const [paused, resumed] = [because(), because()];
  await pause(fresh.db, acme, null, paused);
  await pause(fresh.db, acme, 1_000_000, paused);
  expect(await knownPauses(fresh.db)).toEqual([{ ...acme, leftMs: null }]);
  expect(await resume(fresh.db, acme, resumed)).toBe(true);
  await pause(fresh.db, acme, null, because());
  expect(await resume(fresh.db, acme, resumed)).toBe(true);
  expect(await knownPauses(fresh.db)).toEqual([{ ...acme, leftMs: null }]);
  expect(await fresh.sql("select action from stint.audit order by at")).toHaveLength(3);
});

test.each([
  [`select stint.pause('qeue', 'a', 'x')`, "the scope must be queue, kind, tenant, key or dependency"],
  [`select stint.pause(null, 'a', 'x')`, "the scope must be"],
  [`select stint.pause('queue', 'a**', 'x')`, "the name must be a name or a pattern"],
  [`select stint.pause('kind', '', 'x')`, "the name must be a name or a pattern"],
  [`select stint.pause('tenant', '', 'x')`, "the name must be a text of 1 to 512"],
  [`select stint.pause('key', null, 'x')`, "the name must be a text of 1 to 512"],
  [`select stint.pause('queue', 'a', null)`, "reason must be a text"],
  [`select stint.pause('queue', 'a', 'x', now() - interval '1 day')`, "until must be a later time"],
  [`select stint.pause('queue', 'a', 'x', 'infinity')`, "until must be a later time"],
  [`select stint.pause('queue', 'a', 'x', null, '')`, "actor must be a text"],
  [`select stint.resume('tenannt', 'a', 'x')`, "the scope must be"],
])("%s is refused", async (sql, message) => {
  const fresh = await freshSchema();
  await expect(fresh.sql(sql)).rejects.toMatchObject({
    code: "22023",
    message: expect.stringContaining(message) as string,
  });
  expect(await fresh.sql("select from stint.pause")).toEqual([]);
});
