import { expect, test } from "vitest";
import { changeWaiting } from "#stint/sql/change.js";
import { completeWaiting } from "#stint/sql/complete.js";
import { cancel } from "#stint/sql/operate.js";
import { freshSchema } from "../support/fresh.ts";
import { wrongTallies } from "../support/tallies.ts";
import { addOne, auditInfo, running, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const missing = "00000000-0000-7000-8000-000000000000";

test("stint.complete ends a waiting job with its result, audited", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { delay_ms: 3_600_000 });
  await fresh.sql(`select stint.complete($1, '{"by": "ann"}', 'by phone')`, [id]);
  expect(await fresh.sql(`select state, result from stint.jobs where id = $1`, [id])).toEqual([
    { state: "succeeded", result: { by: "ann" } },
  ]);
  expect(
    await fresh.sql(`select action, reason, actor like 'sql:%' as own from stint.audit where job_id = $1`, [
      id,
    ]),
  ).toEqual([{ action: "complete", reason: "by phone", own: true }]);
  expect(await wrongTallies(fresh)).toEqual([]);
});

test("stint.change gives a waiting job another payload, time and priority", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { payload: 1 });
  const change = { payload: null, delay: "1h", priority: 4 };
  await fresh.sql(`select stint.change($1, $2::text::jsonb, 'wrong order')`, [id, JSON.stringify(change)]);
  expect(
    await fresh.sql(
      `select state, payload = 'null' as empty, priority, run_at > now() + interval '59 minutes' as later
       from stint.job where id = $1`,
      [id],
    ),
  ).toEqual([{ state: "scheduled", empty: true, priority: 4, later: true }]);
  expect(await wrongTallies(fresh)).toEqual([]);
});

test("stint.complete and stint.change refuse what cannot be, and change nothing", async () => {
  const fresh = await freshSchema();
  const busy = await running(fresh.db);
  const waiting = await addOne(fresh.db);
  const ended = await addOne(fresh.db);
  await cancel(fresh.db, ended, auditInfo());
  const before = await fresh.sql(`select to_jsonb(j) as job from stint.jobs j order by id`);
  const refused: [text: string, values: unknown[], message: RegExp][] = [
    [`stint.complete($1)`, [busy.job], /is running/],
    [`stint.complete($1)`, [ended], /is cancelled/],
    [`stint.complete($1)`, [missing], /does not exist/],
    [`stint.complete(null)`, [], /must be the id of a job/],
    [`stint.complete($1, null, '')`, [waiting], /reason and actor/],
    [`stint.complete($1, to_jsonb(repeat('x', 2000000)))`, [waiting], /bytes of JSON/],
    [`stint.change($1, '{"priority": 1}')`, [busy.job], /is running/],
    [`stint.change($1, '{"priority": 1}')`, [ended], /is cancelled/],
    [`stint.change($1, '{"priority": 1}')`, [missing], /does not exist/],
    [`stint.change($1, '{}')`, [waiting], /must be a JSON object/],
    [`stint.change($1, null)`, [waiting], /must be a JSON object/],
    [`stint.change($1, '{"priorty": 1}')`, [waiting], /unknown change "priorty"/],
    [`stint.change($1, '{"priority": 1.5}')`, [waiting], /must be an integer/],
    [`stint.change($1, '{"runAt": "tomorrow"}')`, [waiting], /must be a time with its zone/],
    [`stint.change($1, '{"delay": "-1s"}')`, [waiting], /must be a length of time/],
    [`stint.change($1, '{"delay": 1, "runAt": "2030-01-01T00:00:00Z"}')`, [waiting], /not both/],
    [`stint.change($1, jsonb_build_object('payload', repeat('x', 2000000)))`, [waiting], /bytes of JSON/],
  ];
  for (const [text, values, message] of refused)
    await expect(fresh.sql(`select ${text}`, values)).rejects.toThrow(message);
  expect(await fresh.sql(`select to_jsonb(j) as job from stint.jobs j order by id`)).toEqual(before);
  expect(await fresh.sql(`select action from stint.audit where action <> 'cancel'`)).toEqual([]);
});

test("stint.enqueue takes quiet hours, and refuses those that cannot be", async () => {
  const fresh = await freshSchema();
  const enqueue = async (quietHours: unknown, meta?: object): Promise<unknown> =>
    await fresh.sql(`select stint.enqueue('work', '1', $1::text::jsonb) as id`, [
      JSON.stringify({ queue: "main", quietHours, ...(meta === undefined ? {} : { meta }) }),
    ]);
  await enqueue({ from: "22:00", to: "07:00", zone: "Europe/Berlin" }, { trail: 1 });
  await enqueue({ from: "22:00", to: "07:00" });
  await enqueue(null);
  expect(await fresh.sql(`select meta from stint.job order by id`)).toEqual([
    { meta: { trail: 1, quietHours: { from: "22:00", to: "07:00", zone: "Europe/Berlin" } } },
    { meta: { quietHours: { from: "22:00", to: "07:00", zone: "UTC" } } },
    { meta: null },
  ]);
  const wrong = [
    "22:00-07:00",
    { from: "22:00" },
    { from: "25:00", to: "07:00" },
    { from: "22:00", to: "22:00" },
    { from: "22:00", to: "07:00", zone: "Mars/Olympus" },
    { from: "22:00", to: "07:00", zone: "+02" },
    { from: "22:00", to: "07:00", days: 3 },
  ];
  for (const hours of wrong) await expect(enqueue(hours)).rejects.toThrow(/kind "work": quietHours must be/);
  expect(await fresh.sql(`select from stint.job`)).toHaveLength(3);
});

test("claim × change: a change that waited is refused; a claim skips a locked job", async () => {
  const fresh = await freshSchema();
  const [caller, worker] = await sessions(fresh, 2);
  const id = await addOne(fresh.db, { payload: 1 });
  await worker!.begin();
  const [claimed] = await take(worker!);
  const changing = changeWaiting(caller!, id, { payload: "2" }, auditInfo());
  await caller!.blocked();
  await worker!.commit();
  expect(await changing).toMatchObject({ status: "refused", state: "running" });
  expect(claimed).toMatchObject({ payload: "1" });

  const other = await addOne(fresh.db, { payload: 1 });
  await caller!.begin();
  await changeWaiting(caller!, other, { payload: "2" }, auditInfo());
  expect(await take(fresh.db)).toEqual([]);
  await caller!.commit();
  expect(await take(fresh.db)).toMatchObject([{ payload: "2" }]);
});

test("complete × claim: a job is either completed or run", async () => {
  const fresh = await freshSchema();
  const [caller, worker] = await sessions(fresh, 2);
  const id = await addOne(fresh.db);
  await worker!.begin();
  await take(worker!);
  const completing = completeWaiting(caller!, id, "1", auditInfo());
  await caller!.blocked();
  await worker!.commit();
  expect(await completing).toBeUndefined();

  const other = await addOne(fresh.db);
  await caller!.begin();
  await completeWaiting(caller!, other, "1", auditInfo());
  expect(await take(fresh.db)).toEqual([]);
  await caller!.rollback();
  expect(await take(fresh.db)).toHaveLength(1);
});

test("a change or completion that arrives after its deadline changes nothing", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, { payload: 1 });
  const late = { ...auditInfo(), until: Date.now() - 3_600_000 };
  await expect(changeWaiting(fresh.db, id, { payload: "2" }, late)).rejects.toMatchObject({ code: "ST001" });
  await expect(completeWaiting(fresh.db, id, "1", late)).rejects.toMatchObject({ code: "ST001" });
  expect(await fresh.sql(`select state, payload from stint.jobs`)).toEqual([{ state: "ready", payload: 1 }]);
  expect(await fresh.sql(`select from stint.audit`)).toEqual([]);
});
