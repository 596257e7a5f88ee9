import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { toMs } from "#stint/model/duration.js";
import { encodeJson } from "#stint/model/json.js";
import { checkName } from "#stint/model/names.js";
import { forSchema } from "#stint/db/statement.js";
import { registerKinds } from "#stint/sql/kinds.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { stored, take } from "./jobs.ts";

/** A fresh installation where kind "work" is known, and how SQL callers reach it. */
async function installed(): Promise<
  Fresh & { enqueue(options?: unknown, payload?: unknown, kind?: string | null): Promise<string> }
> {
  const fresh = await freshSchema();
  await registerKinds(fresh.db, [{ name: "work", queue: "main", priority: 7, maxCrashes: 2 }]);
  return {
    ...fresh,
    async enqueue(options = {}, payload = { a: 1 }, kind = "work") {
      const [row] = await fresh.sql<{ id: string }>(`select stint.enqueue($1, $2, $3) as id`, [
        kind,
        JSON.stringify(payload),
        JSON.stringify(options),
      ]);
      return row?.id ?? "";
    },
  };
}

const refusal = async (
  attempt: Promise<unknown>,
): Promise<{ code?: string; message: string; hint?: string }> =>
  await attempt.then(
    () => ({ message: "it was accepted" }),
    (error: { code?: string; message: string; hint?: string }) => error,
  );

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

const refusals: [options: unknown, rule: RegExp][] = [
  [{ atempts: 3 }, /unknown option "atempts"/],
  [{ attempts: "x" }, /attempts must be an integer from 1 to 1000 \(got "x"\)/],
  [{ attempts: 0 }, /attempts must be/],
  [{ attempts: 1.5 }, /attempts must be/],
  [{ attempts: 1e30 }, /attempts must be/],
  [{ priority: 40_000 }, /priority must be an integer from -32768 to 32767/],
  [{ runAt: "soon" }, /runAt must be a time with its zone/],
  [{ runAt: "2030-13-01T00:00:00Z" }, /runAt must be a time/],
  [{ runAt: "2030-01-01T00:00:00" }, /runAt must be a time with its zone/],
  [{ runAt: "infinity" }, /runAt must be a time/],
  [{ runAt: "2030-01-01T00:00:00+99:00" }, /runAt must be a time/],
  [{ runAt: "2030-01-01T00:00:00-16:00" }, /runAt must be a time/],
  [{ runAt: "2030-01-01T00:00:00+9960" }, /runAt must be a time/],
  [{ runAt: "2030-02-30T00:00:00Z" }, /runAt must be a time/],
  [{ runAt: "2030-01-01T25:00:00Z" }, /runAt must be a time/],
  [{ runAt: "0000-01-01T00:00:00Z" }, /runAt must be a time/],
  [{ runAt: "1969-12-31T23:59:59Z" }, /runAt must be a time .* from 1970 to 9999/],
  [{ runAt: "9999-12-31T23:59:59-15:59" }, /runAt must be a time .* from 1970 to 9999/],
  [{ runAt: 5 }, /runAt must be a time/],
  [{ runAt: "2030-01-01T00:00:00Z", delay: "5s" }, /give runAt or delay, not both/],
  [{ delay: "soon" }, /delay must be a length of time/],
  [{ delay: -1 }, /delay must be a length of time/],
  [{ delay: "5m5m" }, /delay must be/],
  [{ delay: "30m1h" }, /delay must be/],
  [{ delay: "" }, /delay must be/],
  [{ delay: "40000d" }, /delay must be/],
  [{ delay: [1] }, /delay must be/],
  [{ timeout: 0 }, /timeout must be/],
  [{ lease: "10ms" }, /lease must be/],
  [{ lease: "2d" }, /lease must be/],
  [{ queue: "a b" }, /queue must be a name/],
  [{ queue: 5 }, /queue must be a name/],
  [{ id: "7" }, /id must be a UUID/],
  [{ key: "" }, /key must be a text of 1 to 512/],
  [{ key: "a\nb" }, /key must be a text/],
  [{ key: "k".repeat(513) }, /key must be a text/],
  [{ tenant: 5 }, /tenant must be a text/],
  [{ tags: "x" }, /tags must be an array/],
  [{ tags: [1] }, /tags must be a text of 1 to 128/],
  [{ tags: [null] }, /tags must be a text/],
  [{ tags: Array.from({ length: 33 }, () => "t") }, /tags must be an array of at most 32/],
  [{ meta: [] }, /meta must be a JSON object/],
  [{ meta: { a: "m".repeat(16_400) } }, /the meta has \d+ bytes of JSON, the limit is 16384/],
  [{ dedupe: "k" }, /dedupe must be/],
  [{ dedupe: {} }, /dedupe needs a key/],
  [{ dedupe: { key: "" } }, /key must be a text/],
  [{ dedupe: { key: "k", untill: "started" } }, /dedupe must be/],
  [{ dedupe: { key: "k", until: "sometimes" } }, /until must be a length of time/],
  [{ dedupe: { key: "k", until: 0 } }, /until must be a length of time/],
  [[], /options must be a JSON object/],
];

test("an invalid option is refused with the rule it breaks, and nothing is written", async () => {
  const stint = await installed();

  for (const [options, rule] of refusals) {
    const error = await refusal(stint.enqueue(options));

    expect(error.message).toMatch(rule);
    expect(error.message).toContain('"work"');
    expect(error).toMatchObject({ code: "22023", hint: expect.stringMatching(/./) as string });
  }
  expect(await stint.sql(`select from stint.jobs`)).toEqual([]);
});

test("an unknown kind is refused with the known kinds, unless a queue is given", async () => {
  const stint = await installed();

  const error = await refusal(stint.enqueue({}, {}, "wrok"));
  const id = await stint.enqueue({ queue: "later" }, {}, "wrok");

  expect(error).toMatchObject({
    code: "22023",
    message: 'stint: no worker here has ever served kind "wrok"',
  });
  expect(error.hint).toContain("known: work");
  expect(await stored(stint, id)).toMatchObject({ queue: "later", max_attempts: null });
});

test("kind names follow the same rule as in TypeScript", async () => {
  const stint = await installed();
  const names = [
    "a",
    "A.b_c:d/e-9",
    "9x",
    "",
    "-a",
    "a b",
    "ä",
    "a\n",
    "a".repeat(128),
    "a".repeat(129),
    "a;b",
  ];

  const accepted = await Promise.all(
    names.map(async (name) => (await refusal(stint.enqueue({ queue: "q" }, {}, name))).code !== "22023"),
  );

  expect(accepted).toEqual(names.map((name) => attempt(() => checkName(name, "kind"))));
  expect((await refusal(stint.sql(`select stint.enqueue(null, '{}')`))).code).toBe("22023");
  expect((await refusal(stint.sql(`select stint.enqueue('work', null)`))).code).toBe("22023");
});

test("payloads may nest exactly as deep as in TypeScript", async () => {
  const stint = await installed();
  const nest = (depth: number, inner: unknown, object: boolean): unknown => {
    let value = inner;
    for (let level = 0; level < depth; level++) value = object ? { a: value } : [value];
    return value;
  };
  const payloads = [1, 63, 64, 65, 66].flatMap((depth) =>
    [[], {}, 1, "x"].flatMap((inner) => [nest(depth, inner, false), nest(depth, inner, true)]),
  );

  const bySql = await Promise.all(
    payloads.map(async (payload) => (await refusal(stint.enqueue({}, payload))).code !== "22023"),
  );

  const byTypeScript = payloads.map((payload) =>
    attempt(() => encodeJson(payload, { kind: "work", root: "payload", maxBytes: 1_048_576 })),
  );
  expect(bySql).toEqual(byTypeScript);
  expect(new Set(bySql)).toEqual(new Set([true, false]));
});

const kept = [
  "0",
  "-7.25",
  "1e308",
  "0.1",
  "0.30000000000000004",
  "9007199254740991",
  "1e23",
  "1234567890123456000",
  "5e-300",
];
const changed = [
  "12345678901234567890",
  "9007199254740993",
  "-9007199254740993",
  "1e400",
  "-1e400",
  "1e-400",
  "0.12345678901234567890",
  "12345678901234.5678",
];

test("a number that JavaScript would change is refused anywhere in the payload", async () => {
  const stint = await installed();
  const one = async (payload: string): Promise<unknown> =>
    await stint.sql(`select stint.enqueue('work', $1)`, [payload]);
  const many = async (payload: string): Promise<unknown> =>
    await stint.sql(`select stint.enqueue_many($1)`, [`[{"kind": "work", "payload": ${payload}}]`]);
  const meta = async (value: string): Promise<unknown> =>
    await stint.sql(`select stint.enqueue('work', '{}', $1)`, [`{"meta": {"n": ${value}}}`]);
  for (const number of changed) {
    for (const payload of [number, `{"a": [1, {"b": ${number}}]}`, `["1234567890123456789", ${number}]`]) {
      for (const enqueue of [one, many]) {
        expect(await refusal(enqueue(payload))).toMatchObject({
          code: "22023",
          message: expect.stringMatching(
            /kind "work": the payload has the number .* cannot hold exactly/,
          ) as string,
          hint: "Write it as a text, or round it.",
        });
      }
    }
    expect((await refusal(meta(number))).message).toMatch(/the meta has the number/);
  }
  expect(await stint.sql("select from stint.job")).toEqual([]);
});

test("a number that JavaScript keeps is accepted, and so are digits in a text", async () => {
  const stint = await installed();
  for (const number of kept) {
    // As a session with fewer digits has them written.
    const client = await adminClient(stint.url);
    await client.query("set extra_float_digits = -15");
    await client.query(forSchema(`select stint.enqueue('work', $1)`, stint.schema), [`{"n": ${number}}`]);
    await client.end();
  }
  const texts = { id: "12345678901234567890", "98765432109876543210": "1.23456789012345678901" };
  await stint.enqueue({}, texts);

  const rows = await stint.sql<{ payload: { n?: number } }>("select payload from stint.job order by id");
  expect(rows.map(({ payload }) => payload)).toEqual([
    ...kept.map((number) => ({ n: Number(number) })),
    texts,
  ]);
});

test("a payload over one mebibyte is refused, with its size", async () => {
  const stint = await installed();

  const error = await refusal(stint.enqueue({}, "x".repeat(1_048_576)));
  const id = await stint.enqueue({}, "x".repeat(1_048_574));

  expect(error).toMatchObject({ code: "22023" });
  expect(error.message).toContain("has 1048578 bytes of JSON, the limit is 1048576");
  expect((await stored(stint, id)).state).toBe("ready");
});

test("durations mean the same in SQL and in TypeScript", async () => {
  const stint = await installed();
  const lengths = [
    0,
    5,
    1.4,
    1.6,
    "500ms",
    "30s",
    "5m",
    "2h",
    "1d",
    "1h30m",
    "1h 30m",
    "1.5s",
    " 2s ",
    "1d2h3m4s5ms",
    "0s",
  ];
  const slips = ["5", "5 s", "s", "5x", "1e3s", "-1s", "5s5s", "1m1h", "99999999999d", "Infinity", "5S"];

  const ids = await Promise.all(lengths.map(async (delay) => await stint.enqueue({ delay })));
  const refused = await Promise.all(
    slips.map(async (delay) => (await refusal(stint.enqueue({ delay }))).code),
  );

  const kept = await Promise.all(
    ids.map(async (id) => {
      const [row] = await stint.sql<{ ms: number }>(
        `select round(extract(epoch from run_at - created_at) * 1000)::float8 as ms from stint.job where id = $1`,
        [id],
      );
      return row?.ms;
    }),
  );
  expect(kept).toEqual(lengths.map((length) => toMs(length, "delay")));
  expect(refused).toEqual(slips.map(() => "22023"));
  expect(slips.map((length) => attempt(() => toMs(length, "delay")))).toEqual(slips.map(() => false));
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
  const heard: string[] = [];
  listener.on("notification", (note) => heard.push(`${note.channel} ${note.payload}`));
  await listener.query(`listen "stint:${stint.schema}"`);
  await stint.enqueue();
  for (const one of [stint, other]) {
    await one.sql(
      `insert into stint.worker (id, host, pid, version, pools, kinds, hears) values ('w', 'h', 1, 'v', '{}', '{}', true)`,
    );
  }

  await other.enqueue();
  await stint.enqueue({ delay: "5m" });
  await stint.enqueue();
  await listener.query("select 1");
  await listener.end();

  expect(heard).toEqual([`stint:${stint.schema} due`, `stint:${stint.schema} ready:main`]);
});

test("a job's own wake option decides whether its enqueue notifies", async () => {
  const stint = await installed();
  const listener = await adminClient(stint.url);
  const heard: string[] = [];
  listener.on("notification", (note) => heard.push(String(note.payload)));
  await listener.query(`listen "stint:${stint.schema}"`);
  await stint.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds, hears) values ('w', 'h', 1, 'v', '{}', '{}', true)`,
  );

  await stint.enqueue({ wake: false });
  await stint.sql(
    `select * from stint.enqueue_many('[
      {"kind": "work", "payload": 1, "options": {"queue": "quiet", "wake": false}},
      {"kind": "work", "payload": 1, "options": {"queue": "loud"}}]')`,
  );
  await listener.query("select 1");
  await listener.end();

  expect(heard).toEqual(["ready:loud"]);
  for (const wake of ["no", 1, {}]) {
    const error = await refusal(stint.enqueue({ wake }));
    expect(error).toMatchObject({ code: "22023" });
    expect(error.message).toContain("wake must be true or false");
  }
});

function attempt(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
