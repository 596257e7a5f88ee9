import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { finish } from "#stint/sql/finish.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne, running, stored, take, type JobInput } from "./jobs.ts";

const count = async (fresh: Fresh): Promise<number> => (await fresh.sql(`select from stint.jobs`)).length;

test("results come back by ordinal, in any order of writing", async () => {
  const fresh = await freshSchema();
  const ids = [3, 1, 2].map((n) => `00000000-0000-7000-8000-00000000000${n}`);

  const result = await add(
    fresh.db,
    ids.map((id, index) => ({ id, kind: `k${9 - index}` })),
  );

  expect(result.map((row) => [row.ordinal, row.id, row.created])).toEqual(
    ids.map((id, index) => [index + 1, id, true]),
  );
});

test("a payload of any JSON value is stored unchanged, null included", async () => {
  const fresh = await freshSchema();
  const payloads = [null, 0, "", false, [], {}, { a: [null, { b: 1.5 }] }, "é€😀"];

  const rows = await add(
    fresh.db,
    payloads.map((payload) => ({ payload })),
  );
  const again = await add(fresh.db, [{ payload: null, dedupe_key: "x", dedupe_ms: 1_000 }]);

  const kept = await Promise.all(
    [...rows, ...again].map(async (row) => (await stored(fresh, row.id))["payload"]),
  );
  expect(kept).toEqual([...payloads, null]);
});

test("every field reaches its column; an omitted field takes its default", async () => {
  const fresh = await freshSchema();
  const full = await addOne(fresh.db, {
    priority: -5,
    max_attempts: 9,
    max_crashes: 4,
    timeout_ms: 3_000_000_000,
    lease_ms: 5_000,
    key: "k",
    tenant: "t",
    tags: ["a", "b"],
    meta: { trace: "x" },
  });
  const bare = await addOne(fresh.db);

  expect(await stored(fresh, full)).toMatchObject({
    state: "ready",
    priority: -5,
    max_attempts: 9,
    max_crashes: 4,
    timeout_ms: "3000000000",
    lease_ms: "5000",
    key: "k",
    tenant: "t",
    tags: ["a", "b"],
    meta: { trace: "x" },
    run: 1,
    epoch: "0",
  });
  expect(await stored(fresh, bare)).toMatchObject({
    priority: 0,
    max_attempts: null,
    key: null,
    tags: null,
    meta: null,
  });
});

test("jobs of one batch keep their own kind, queue and fields", async () => {
  const fresh = await freshSchema();
  const names = ["null", 'quo"ted', "back\\slash", "comma,brace}", "null"];

  const rows = await add(
    fresh.db,
    names.map((name, index) => ({
      kind: name,
      queue: `of ${name}`,
      payload: index,
      ...(index === 2 ? { priority: 7, meta: { a: null } } : {}),
    })),
  );

  const kept = await Promise.all(rows.map(async ({ id }) => await stored(fresh, id)));
  expect(
    kept.map((row) => [row["kind"], row["queue"], row["payload"], row["priority"], row["meta"]]),
  ).toEqual(
    names.map((name, index) => [
      name,
      `of ${name}`,
      index,
      index === 2 ? 7 : 0,
      index === 2 ? { a: null } : null,
    ]),
  );
});

test("an enqueue of no rows succeeds", async () => {
  const fresh = await freshSchema();

  expect(await add(fresh.db, [])).toEqual([]);
  expect(await count(fresh)).toBe(0);
});

test.each([10, 500])("among %i jobs, a taken id returns the job that has it", async (many) => {
  const fresh = await freshSchema();
  const taken = await addOne(fresh.db, { payload: "first" });

  const result = await add(
    fresh.db,
    Array.from({ length: many }, (_, index) => (index === 5 ? { id: taken, payload: "second" } : {})),
  );

  expect(result.every((row) => row.created)).toBe(true);
  expect(result[5]?.id).toBe(taken);
  expect(await count(fresh)).toBe(many);
  expect((await stored(fresh, taken))["payload"]).toBe("first");
});

test("large batches in one transaction use at most one subtransaction", async () => {
  const fresh = await freshSchema();
  const batch = Array.from({ length: 200 }, () => ({}));

  await fresh.db.transaction(async (tx) => {
    for (let n = 0; n < 4; n++) await add(tx, batch);
  });

  expect(await count(fresh)).toBe(800);
  const writers = await fresh.sql(`select distinct xmin::text from stint.job`);
  expect(writers.length).toBeLessThanOrEqual(2);
});

test("a future run time makes a job scheduled; a past one makes it ready in its place", async () => {
  const fresh = await freshSchema();

  const [delayed, later, past] = await add(fresh.db, [
    { delay_ms: 60_000 },
    { run_at: "2999-01-01T00:00:00.000Z" },
    { run_at: "2001-01-01T00:00:00.000Z" },
  ]);

  expect((await stored(fresh, delayed!.id)).state).toBe("scheduled");
  expect(await stored(fresh, later!.id)).toMatchObject({
    state: "scheduled",
    run_at: new Date("2999-01-01"),
  });
  expect(await stored(fresh, past!.id)).toMatchObject({ state: "ready", run_at: new Date("2001-01-01") });
});

test("a taken key returns the job that holds it, also within one batch", async () => {
  const fresh = await freshSchema();
  const holder = await addOne(fresh.db, { dedupe_key: "a", dedupe_until: "finished" });

  const result = await add(fresh.db, [
    { dedupe_key: "b", dedupe_until: "finished" },
    { dedupe_key: "a", dedupe_until: "finished" },
    { dedupe_key: "b", dedupe_until: "started" },
    {},
    { kind: "other", dedupe_key: "a", dedupe_until: "finished" },
  ]);

  const created = result.map((row) => row.created);
  expect(result[1]).toMatchObject({ id: holder, created: false });
  expect(result[0]?.id).toBe(result[2]?.id);
  expect(created[0]).not.toBe(created[2]);
  expect([created[3], created[4]]).toEqual([true, true]);
  expect(await count(fresh)).toBe(4);
});

test("a key that holds until the end is free again after the end", async () => {
  const { db } = await freshSchema();
  const fence = await running(db, { dedupe_key: "a", dedupe_until: "finished" });
  await finish(db, [{ fence, state: "succeeded", result: null, reason: null, ending: null }]);

  const [result] = await add(db, [{ dedupe_key: "a", dedupe_until: "finished" }]);

  expect(result?.created).toBe(true);
});

test("a key held for a time outlives its job, and is free when that time ends", async () => {
  const fresh = await freshSchema();
  const once = { dedupe_key: "a", dedupe_ms: 60_000 };
  const fence = await running(fresh.db, once);
  await finish(fresh.db, [{ fence, state: "succeeded", result: null, reason: null, ending: null }]);

  const [during] = await add(fresh.db, [once]);
  await fresh.sql(`update stint.dedupe_window set expires_at = expires_at - interval '61 s'`);
  const [after, next] = await add(fresh.db, [once, once]);

  expect(during).toMatchObject({ id: fence.job, created: false });
  expect(after?.created).toBe(true);
  expect(next).toMatchObject({ id: after?.id, created: false });
});

test("the same id twice is one job", async () => {
  const fresh = await freshSchema();
  const id = newId();

  const batch = await add(fresh.db, [{ id }, { id }]);
  const later = await add(fresh.db, [{ id }]);

  expect([...batch, ...later].map((row) => [row.id, row.created])).toEqual([
    [id, true],
    [id, true],
    [id, true],
  ]);
  expect(await count(fresh)).toBe(1);
});

test("a repeat after a lost reply finds its job, live or finished, and adds none", async () => {
  const fresh = await freshSchema();
  const live = await addOne(fresh.db);
  await take(fresh.db);
  const fence = await running(fresh.db);
  await finish(fresh.db, [
    { fence, state: "dead", result: null, reason: "x", ending: { outcome: "failed" } },
  ]);
  const never = newId();

  const result = await add(fresh.db, [
    { id: live, again: true },
    { id: fence.job, again: true },
    { id: never, again: true },
  ]);

  expect(result.map((row) => [row.id, row.created])).toEqual([
    [live, true],
    [fence.job, true],
    [never, true],
  ]);
  expect(await count(fresh)).toBe(3);
});

test("a repeat of an enqueue that lost to another job returns that job again", async () => {
  const { db } = await freshSchema();
  const holder = await addOne(db, { dedupe_key: "a", dedupe_until: "finished" });

  const [result] = await add(db, [{ id: newId(), again: true, dedupe_key: "a", dedupe_until: "finished" }]);

  expect(result).toMatchObject({ id: holder, created: false });
});

test("one row that cannot be stored rolls back the whole batch", async () => {
  const fresh = await freshSchema();

  const attempt = add(fresh.db, [{}, { priority: 100_000 }, {}]);

  await expect(attempt).rejects.toMatchObject({ code: "22003" });
  expect(await count(fresh)).toBe(0);
});

test("the result reports whether any worker listens", async () => {
  const fresh = await freshSchema();
  const before = await add(fresh.db);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds, listening) values ('w', 'h', 1, 'v', '{}', '{}', true)`,
  );

  const after = await add(fresh.db, [{}, { dedupe_key: "x", dedupe_ms: 5 }]);

  expect(before.map((row) => row.listening)).toEqual([false]);
  expect(after.map((row) => row.listening)).toEqual([true, true]);
});

test("a worker asleep for any time counts as listening; a lost one does not", async () => {
  const fresh = await freshSchema();
  const received = async (asleep: boolean): Promise<boolean[]> => {
    await fresh.sql(
      `insert into stint.worker (id, host, pid, version, pools, kinds, listening, asleep, seen_at)
       values ('w', 'h', 1, 'v', '{}', '{}', true, $1, now() - interval '1 hour')
       on conflict (id) do update set asleep = excluded.asleep`,
      [asleep],
    );
    return (await add(fresh.db)).concat(await add(fresh.db, [{ again: true }])).map((row) => row.listening);
  };

  expect(await received(false)).toEqual([false, false]);
  expect(await received(true)).toEqual([true, true]);
});

test("ids made by the database are version 7, and later ones sort later", async () => {
  const fresh = await freshSchema();

  const rows = await fresh.sql<{ id: string }>(
    `select stint.new_id() as id, pg_sleep(0.002) from generate_series(1, 20)`,
  );

  const ids = rows.map((row) => row.id);
  expect(
    ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
  ).toBe(true);
  expect([...ids].sort()).toEqual(ids);
  expect(Math.abs(Number.parseInt(ids[0]!.slice(0, 13).replace("-", ""), 16) - Date.now())).toBeLessThan(
    60_000,
  );
});

test("no sequence of the schema has 32 bits, so none can run out", async () => {
  const fresh = await freshSchema();

  const sequences = await fresh.sql(
    `select s.seqrelid::regclass from pg_sequence s join pg_class c on c.oid = s.seqrelid
     where c.relnamespace = $1::regnamespace and s.seqtypid <> 'bigint'::regtype`,
    [fresh.schema],
  );

  expect(sequences).toEqual([]);
});

test.each([
  ["a lease no interval can hold", { lease_ms: "9223372036854775807" }],
  ["a lease shorter than a round trip", { lease_ms: 1 }],
  ["a run time before all time", { run_at: "-infinity" }],
  ["no attempt at all", { max_attempts: 0 }],
  ["no time to run", { timeout_ms: 0 }],
  ["a kind without a name", { kind: "" }],
])("a row that would fail every claim is refused: %s", async (_, poison) => {
  const fresh = await freshSchema();

  await expect(add(fresh.db, [poison as JobInput])).rejects.toMatchObject({ code: "23514" });
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
});
