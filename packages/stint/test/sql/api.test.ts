import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { adminClient } from "../support/database.ts";
import { installed, refusal } from "./api.ts";
import { stored, take } from "./jobs.ts";

test("a job enqueued in SQL takes its kind's queue and priority, and sets no policy", async () => {
  const stint = await installed();

  const id = await stint.enqueue();

  expect(await stored(stint, id)).toMatchObject({
    state: "ready",
    kind: "work",
    queue: "main",
    priority: 7,
    max_attempts: null,
    max_crashes: null,
    timeout_ms: null,
    lease_ms: null,
    payload: { a: 1 },
  });
  expect((await take(stint.db))[0]?.fence.job).toBe(id);
});

test("every option can be given in SQL, and null means left out", async () => {
  const stint = await installed();
  const id = newId();

  const full = await stint.enqueue({
    id,
    queue: "other",
    runAt: "2999-01-31T12:00:00+02:00",
    priority: -1,
    attempts: 9,
    key: "k",
    tenant: "t",
    tags: ["x", "y"],
    meta: { trace: null },
    timeout: "1h30m",
    lease: 90_000,
    dedupe: { key: "d", until: "started" },
  });
  const bare = await stint.enqueue({
    queue: null,
    runAt: null,
    delay: null,
    key: null,
    dedupe: null,
    tags: null,
    meta: null,
    lease: null,
  });

  expect(full).toBe(id);
  expect(await stored(stint, id)).toMatchObject({
    state: "scheduled",
    queue: "other",
    run_at: new Date("2999-01-31T10:00:00Z"),
    priority: -1,
    max_attempts: 9,
    key: "k",
    tenant: "t",
    tags: ["x", "y"],
    meta: { trace: null },
    timeout_ms: "5400000",
    lease_ms: "90000",
  });
  expect(await stored(stint, bare)).toMatchObject({
    state: "ready",
    queue: "main",
    key: null,
    tags: null,
    meta: null,
  });
});

test("arguments can be named, and options can be left out or SQL null", async () => {
  const stint = await installed();

  const rows = await stint.sql<{ id: string }>(
    `select stint.enqueue(kind => 'work', payload => '[]') as id
     union all select stint.enqueue('work', 'null', null)`,
  );

  expect(rows).toHaveLength(2);
});

test("a rollback leaves no job, a commit leaves the job", async () => {
  const stint = await installed();
  const client = await adminClient(stint.url);
  const enqueue = `select "${stint.schema}".enqueue('work', '{}')`;

  await client.query(`begin; ${enqueue}; rollback`);
  const afterRollback = await stint.sql(`select from stint.jobs`);
  await client.query(`begin; ${enqueue}; commit`);
  const afterCommit = await stint.sql(`select from stint.jobs`);
  await client.end();

  expect([afterRollback.length, afterCommit.length]).toEqual([0, 1]);
});

test("a trigger's job commits or rolls back with the row it fires for", async () => {
  const stint = await installed();
  await stint.sql(`create table stint.payment (id integer primary key)`);
  await stint.sql(
    `create function stint.on_payment() returns trigger language plpgsql as
     $$ begin perform stint.enqueue('work', to_jsonb(new), jsonb_build_object('key', 'payment:' || new.id)); return new; end $$`,
  );
  await stint.sql(
    `create trigger paid after insert on stint.payment for each row execute function stint.on_payment()`,
  );

  await stint.sql(`insert into stint.payment values (1), (2)`);
  await stint.sql(`insert into stint.payment values (3), (1)`).catch(() => undefined);

  expect(await stint.sql(`select key, payload from stint.job order by key`)).toEqual([
    { key: "payment:1", payload: { id: 1 } },
    { key: "payment:2", payload: { id: 2 } },
  ]);
});

test("dedupe in SQL works until the end, until the start, for a time, and by job key", async () => {
  const stint = await installed();
  const twice = async (dedupe: object, key?: string): Promise<boolean> => {
    const options = { dedupe, ...(key === undefined ? {} : { key }) };
    return (await stint.enqueue(options)) === (await stint.enqueue(options));
  };

  expect(await twice({ key: "a" })).toBe(true);
  expect(await twice({ key: "b", until: "started" })).toBe(true);
  expect(await twice({ key: "c", until: "1h" })).toBe(true);
  expect(await twice({}, "own")).toBe(true);
  expect(
    await stint.sql(`select dedupe_key, dedupe_until from stint.job where dedupe_key is not null order by 1`),
  ).toEqual([
    { dedupe_key: "a", dedupe_until: "finished" },
    { dedupe_key: "b", dedupe_until: "started" },
    { dedupe_key: "own", dedupe_until: "finished" },
  ]);
  expect(await stint.sql(`select key from stint.dedupe_window`)).toEqual([{ key: "c" }]);
});

test("enqueue_many returns results by ordinal and stores all jobs or none", async () => {
  const stint = await installed();
  const many = async (jobs: unknown): Promise<Record<string, unknown>[]> =>
    await stint.sql(`select ordinal, id, created from stint.enqueue_many($1)`, [JSON.stringify(jobs)]);
  const once = { kind: "work", payload: 1, options: { dedupe: { key: "a" } } };

  const rows = await many([{ kind: "work", payload: { n: 1 } }, once, once, { kind: "work", options: null }]);
  const refused = await refusal(many([{ kind: "work" }, { kind: "work", options: { delay: "x" } }]));

  expect(rows.map((row) => row["ordinal"])).toEqual([1, 2, 3, 4]);
  expect(rows[1]?.["id"]).toBe(rows[2]?.["id"]);
  expect(rows.filter((row) => row["created"] === true)).toHaveLength(3);
  expect(refused.code).toBe("22023");
  expect(await stint.sql(`select from stint.jobs`)).toHaveLength(3);
  expect(await many([])).toEqual([]);
});

test("enqueue_many refuses anything that is not a list of jobs", async () => {
  const stint = await installed();
  const bad = [null, {}, 5, ["work"], [{ kind: "work", option: {} }], [{ payload: 1 }], [{ kind: 5 }]];

  for (const jobs of bad) {
    const error = await refusal(stint.sql(`select * from stint.enqueue_many($1)`, [JSON.stringify(jobs)]));

    expect(error.message).toMatch(/^stint: /);
    expect(error.code).toBe("22023");
  }
  expect((await refusal(stint.sql(`select * from stint.enqueue_many(null)`))).code).toBe("22023");
});

test("a commit wakes listening workers, on this installation's channel only", async () => {
  const stint = await installed();
  const other = await installed();
  const listener = await adminClient(stint.url);
  const received: string[] = [];
  listener.on("notification", (note) => received.push(`${note.channel} ${note.payload}`));
  await listener.query(`listen "stint:${stint.schema}"`);
  await stint.enqueue();
  for (const one of [stint, other]) {
    await one.sql(
      `insert into stint.worker (id, host, pid, version, pools, kinds, listening) values ('w', 'h', 1, 'v', '{}', '{}', true)`,
    );
  }

  await other.enqueue();
  await stint.enqueue({ delay: "5m" });
  await stint.enqueue();
  await listener.query("select 1");
  await listener.end();

  expect(received).toEqual([`stint:${stint.schema} due`, `stint:${stint.schema} ready:main`]);
});

test("a job's own wake option decides whether its enqueue notifies", async () => {
  const stint = await installed();
  const listener = await adminClient(stint.url);
  const received: string[] = [];
  listener.on("notification", (note) => received.push(String(note.payload)));
  await listener.query(`listen "stint:${stint.schema}"`);
  await stint.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds, listening) values ('w', 'h', 1, 'v', '{}', '{}', true)`,
  );

  await stint.enqueue({ wake: false });
  await stint.sql(
    `select * from stint.enqueue_many('[
      {"kind": "work", "payload": 1, "options": {"queue": "quiet", "wake": false}},
      {"kind": "work", "payload": 1, "options": {"queue": "loud"}}]')`,
  );
  await listener.query("select 1");
  await listener.end();

  expect(received).toEqual(["ready:loud"]);
  for (const wake of ["no", 1, {}]) {
    const error = await refusal(stint.enqueue({ wake }));
    expect(error).toMatchObject({ code: "22023" });
    expect(error.message).toContain("wake must be true or false");
  }
});
