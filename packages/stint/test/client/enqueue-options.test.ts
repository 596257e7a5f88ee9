import { Client } from "pg";
import { describe, expect, test } from "vitest";
import {
  defineJob,
  InvalidOptionError,
  InvalidPayloadError,
  entry,
  typed,
  UnknownKindError,
  type EnqueueOptions,
  type JobDefinition,
  type StandardSchema,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const id = "0199a000-0000-7000-8000-00000000abcd";
const plain = defineJob("plain", { payload: typed<unknown>() });

type Row = Record<string, unknown>;

async function rows(fresh: Fresh): Promise<Row[]> {
  return await fresh.sql<Row>(
    "select *, extract(epoch from run_at - created_at)::float8 as waits from stint.job order by id",
  );
}

test.each<[string, EnqueueOptions, Row]>([
  [
    "nothing",
    {},
    { state: "ready", priority: 0, queue: "default", max_attempts: null, waits: 0, tags: null },
  ],
  ["id", { id }, { id }],
  ["id in capitals", { id: id.toUpperCase() }, { id }],
  [
    "runAt in the future",
    { runAt: new Date("2199-01-02T03:04:05.678Z") },
    { state: "scheduled", run_at: new Date("2199-01-02T03:04:05.678Z") },
  ],
  [
    "runAt in the past",
    { runAt: new Date("2001-02-03T04:05:06Z") },
    { state: "ready", run_at: new Date("2001-02-03T04:05:06Z") },
  ],
  ["delay", { delay: "1h30m" }, { state: "scheduled", waits: 5400 }],
  ["delay in milliseconds", { delay: 1500 }, { state: "scheduled", waits: 1.5 }],
  ["delay of zero", { delay: 0 }, { state: "ready", waits: 0 }],
  ["priority", { priority: -32_768 }, { priority: -32_768 }],
  ["attempts", { attempts: 1000 }, { max_attempts: 1000 }],
  ["key", { key: "receipt:ü 1" }, { key: "receipt:ü 1", dedupe_key: null }],
  ["dedupe", { dedupe: { key: "k" } }, { dedupe_key: "k", dedupe_until: "finished", key: null }],
  [
    "dedupe by the job's key",
    { key: "k", dedupe: { until: "started" } },
    { dedupe_key: "k", dedupe_until: "started" },
  ],
  ["dedupe for a time", { dedupe: { key: "k", until: "5m" } }, { dedupe_key: null, dedupe_until: null }],
  ["tenant", { tenant: "acme'; drop table job; --" }, { tenant: "acme'; drop table job; --" }],
  ["tags", { tags: ["a", 'b"{},\\', "NULL"] }, { tags: ["a", 'b"{},\\', "NULL"] }],
  ["meta", { meta: { traceparent: "00-1", deep: [null] } }, { meta: { traceparent: "00-1", deep: [null] } }],
  ["timeout", { timeout: "2m" }, { timeout_ms: "120000" }],
  ["lease", { lease: "10s" }, { lease_ms: "10000" }],
])("the option %s lands in the row", async (_, options, expected) => {
  const fresh = await freshSchema();
  await fresh.client().enqueue(plain, { a: 1 }, options);
  const found = await rows(fresh);

  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({ kind: "plain", payload: { a: 1 }, ...expected });
});

test("queue, priority and key come from the kind; a row stores only its own policy", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const full = defineJob("full/job:v1.2_x-y", {
    payload: typed<{ id: string }>(),
    queue: "q.1",
    priority: 7,
    attempts: 9,
    timeout: "1m",
    lease: "2s",
    maxCrashes: 4,
    key: ({ id }) => `full:${id}`,
  });
  await stint.enqueue(full, { id: "1" });
  await stint.enqueue(
    full,
    { id: "2" },
    { priority: 0, attempts: 2, timeout: "2m", lease: "3s", maxCrashes: 1, key: "own" },
  );

  expect(await rows(fresh)).toMatchObject([
    {
      kind: "full/job:v1.2_x-y",
      queue: "q.1",
      priority: 7,
      max_attempts: null,
      max_crashes: null,
      timeout_ms: null,
      lease_ms: null,
      key: "full:1",
    },
    { priority: 0, max_attempts: 2, max_crashes: 1, timeout_ms: "120000", lease_ms: "3000", key: "own" },
  ]);
});

const wrongOptions: [string, unknown, string][] = [
  [
    "an unknown option",
    { prioritty: 1 },
    'enqueue("plain").prioritty: is not an option; did you mean "priority"?',
  ],
  [
    "an unknown option",
    { colour: 1 },
    'enqueue("plain").colour: is not an option. enqueue("plain") has id, runAt',
  ],
  ["options that are none", "soon", 'enqueue("plain"): must be an object of options, got "soon"'],
  ["an id that is none", { id: "1'; --" }, `.id: must be the UUID of a job, got "1'; --"`],
  ["an invalid date", { runAt: new Date("tomorrow") }, ".runAt: must be a valid Date, got an invalid Date"],
  ["a date as text", { runAt: "2030-01-01" }, '.runAt: must be a valid Date, got "2030-01-01"'],
  ["a date as a number", { runAt: 5 }, ".runAt: must be a valid Date, got 5"],
  [
    "a date beyond the calendar",
    { runAt: new Date(8.64e15) },
    ".runAt: must be in the year 9999 at the latest, got +275760",
  ],
  ["a date before time", { runAt: new Date(-8.64e15) }, ".runAt: must be 1970 or later, got -271821"],
  ["a negative delay", { delay: -1 }, ".delay: must be a duration"],
  ["a delay that is none", { delay: "soon" }, 'got "soon"'],
  ["a delay of NaN", { delay: Number.NaN }, "got NaN"],
  ["an endless delay", { delay: Number.POSITIVE_INFINITY }, "got Infinity"],
  ["a delay of centuries", { delay: "40000d" }, ".delay: must be at most"],
  [
    "both runAt and delay",
    { runAt: new Date(0), delay: 5 },
    "takes runAt or delay, not both; got 1970-01-01T00:00:00.000Z and 5",
  ],
  [
    "a priority out of range",
    { priority: 32_768 },
    ".priority: must be an integer from -32768 to 32767, got 32768",
  ],
  ["half a priority", { priority: 0.5 }, "got 0.5"],
  ["no attempts", { attempts: 0 }, ".attempts: must be an integer from 1 to 1000, got 0"],
  ["attempts of null", { attempts: null }, ".attempts: must be an integer from 1 to 1000, got null"],
  ["an empty key", { key: "" }, '.key: must not be empty, got ""'],
  ["a key with NUL", { key: "a\0" }, ".key: must not contain control characters"],
  [
    "a key with an escape sequence of one character",
    { key: "a\u009b1m" },
    ".key: must not contain control characters",
  ],
  ["half a surrogate pair in a key", { key: "a\ud800" }, ".key: must not contain half of a surrogate pair"],
  ["a key that is too long", { key: "x".repeat(513) }, ".key: must be at most 512 characters (it has 513)"],
  ["a tenant that is no string", { tenant: 5 }, ".tenant: must be a string, got 5"],
  [
    "too many tags",
    { tags: Array.from({ length: 33 }, String) },
    ".tags: must be an array of at most 32 strings, got 33",
  ],
  ["tags that are no array", { tags: "a,b" }, '.tags: must be an array of at most 32 strings, got "a,b"'],
  ["a tag that is no string", { tags: ["a", null] }, ".tags[1]: must be a string, got null"],
  ["a dedupe without a key", { dedupe: {} }, ".dedupe.key: is needed"],
  ["a dedupe that is only a key", { dedupe: "k" }, '.dedupe: must be an object of options, got "k"'],
  [
    "a misspelt part of dedupe",
    { dedupe: { kay: "k" } },
    '.dedupe.kay: is not an option; did you mean "key"?',
  ],
  ["a misspelt until", { dedupe: { key: "k", until: "finish" } }, 'got "finish"; did you mean "finished"?'],
  ["an until of zero", { dedupe: { key: "k", until: 0 } }, ".dedupe.until: must be at least 1 ms, got 0"],
  ["a meta that is a list", { meta: [] }, ".meta: must be a plain object, got []"],
  ["a timeout of zero", { timeout: 0 }, ".timeout: must be at least 1 ms, got 0"],
  ["a lease too short", { lease: "10ms" }, '.lease: must be at least 1 s, got "10ms"'],
];

async function refusal(enqueued: Promise<unknown>): Promise<{ name: string; message: string }> {
  return await enqueued.then(
    () => ({ name: "none", message: "it was accepted" }),
    ({ name, message }: Error) => ({ name, message }),
  );
}

test("a wrong option is refused by name, value and rule, and nothing is written", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const outcomes: unknown[] = [];
  for (const [what, input] of wrongOptions) {
    const options = input as EnqueueOptions;
    const alone = await refusal(stint.enqueue(plain, {}, options));
    const among = await refusal(stint.enqueueMany([entry(plain, {}), entry(plain, {}, options)]));
    outcomes.push({ what, alone, among });
  }
  expect(outcomes).toEqual(
    wrongOptions.map(([what, , message]) => {
      const full = message.startsWith(".") ? `enqueue("plain")${message}` : message;
      const refused = { name: "InvalidOptionError", message: expect.stringContaining(full) as unknown };
      return { what, alone: refused, among: refused };
    }),
  );
  expect(await rows(fresh)).toEqual([]);
});

test("a meta that would not survive JSON or is too large is refused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await expect(stint.enqueue(plain, {}, { meta: { at: new Date() } })).rejects.toThrow("meta.at is a Date");
  await expect(stint.enqueue(plain, {}, { meta: { x: "x".repeat(20_000) } })).rejects.toThrow(
    "over the limit of 16384",
  );
  expect(await rows(fresh)).toEqual([]);
});

describe("a kind enqueued by name", () => {
  test("is found in the client's jobs and its workers' handlers", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client({ jobs: [plain] });
    const other = defineJob("other", { payload: typed<unknown>() });
    await expect(stint.enqueue("other", {})).rejects.toThrow(UnknownKindError);
    stint.worker({
      pools: { default: 1 },
      handlers: [{ definition: other, run: () => undefined, policy: other.policy }],
    });
    await stint.enqueue("plain", {});
    await stint.enqueue("other", {});
    expect((await rows(fresh)).map((row) => row["kind"])).toEqual(["plain", "other"]);
  });

  test("is refused when misspelt, with a suggestion", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client({ jobs: [plain] });
    const error = await stint.enqueue("plian", {}).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(UnknownKindError);
    expect(error).toMatchObject({ code: "UNKNOWN_KIND", kind: "plian", suggestion: "plain" });
    expect((error as Error).message).toContain('No kind "plian" is defined here; did you mean "plain"?');
    await expect(stint.enqueue("zzzzzzz", {})).rejects.toThrow(
      'No kind "zzzzzzz" is defined here. Nothing was enqueued. Pass',
    );
    for (const name of ["", "x'; drop table stint.job; --", "__proto__", "constructor", "toString"]) {
      await expect(stint.enqueue(name, {})).rejects.toThrow(UnknownKindError);
    }
    expect(await rows(fresh)).toEqual([]);
  });

  test.each([undefined, null, {}, 5, [], { kind: "plain" }])("is refused when it is %j", async (wrong) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const attempt = stint.enqueue(wrong as unknown as JobDefinition, {});
    await expect(attempt).rejects.toThrow(InvalidOptionError);
    await expect(attempt).rejects.toThrow("enqueue(job): must be a job made by defineJob");
  });
});

test("invalid entries of enqueueMany are refused by index", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const entries = [entry(plain, 1), plain] as never;
  await expect(stint.enqueueMany(entries)).rejects.toThrow("enqueueMany[1]: must be made by entry(…)");
  await expect(stint.enqueueMany(entries, { onError: "report" })).rejects.toThrow("enqueueMany[1]");
  await expect(stint.enqueueMany("all" as never)).rejects.toThrow("takes an array of entries");
  await expect(stint.enqueueMany([], { onError: "ignore" as "report" })).rejects.toThrow(
    'enqueueMany.onError: must be "throw" or "report"',
  );
  expect(await stint.enqueueMany([])).toEqual([]);
  expect(await stint.enqueueMany([], { onError: "report" })).toEqual([]);
  expect(await rows(fresh)).toEqual([]);
});

test("enqueueMany returns in entry order, all or nothing unless it reports per entry", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const entries = ["a", "b", "a", "c"].map((key) => entry(plain, { key }, { dedupe: { key } }));
  const results = await stint.enqueueMany(entries);
  expect(results.map((result) => result.created)).toEqual([true, true, false, true]);
  expect(results[2]!.id).toBe(results[0]!.id);

  const bad = entry(plain, 5n);
  await expect(stint.enqueueMany([entry(plain, 1), bad])).rejects.toThrow(InvalidPayloadError);
  await expect(stint.enqueueMany([entry(plain, 1), bad])).rejects.toThrow(
    /^enqueueMany\[1\]: plain: payload /,
  );
  expect(await rows(fresh)).toHaveLength(3);

  const report = await stint.enqueueMany([entry(plain, 1), bad, entry(plain, 2)], { onError: "report" });
  expect(report).toEqual([
    expect.objectContaining({ created: true }),
    expect.any(InvalidPayloadError),
    expect.objectContaining({ created: true }),
  ]);
  expect((report[1] as Error).message).toMatch(/^enqueueMany\[1\]: plain: payload /);
  expect(await rows(fresh)).toHaveLength(5);
});

test("more entries than one statement holds stay all or nothing, and in order", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const many = Array.from({ length: 4_500 }, (_, n) => entry(plain, n));
  await fresh.sql(`alter table stint.job add constraint no_bad check (payload <> '4321')`);
  await expect(stint.enqueueMany(many)).rejects.toThrow("no_bad");
  expect((await fresh.sql<{ n: number }>("select count(*)::int as n from stint.job"))[0]!.n).toBe(0);

  const report = await stint.enqueueMany(many, { onError: "report" });
  expect(report.flatMap((one, index) => (one instanceof Error ? [index] : []))).toEqual([4321]);
  const stored = await fresh.sql<{ id: string; n: number }>("select id, payload::int as n from stint.job");
  const byId = new Map(stored.map((row) => [row.id, row.n]));
  expect(report.map((one) => (one instanceof Error ? 4321 : byId.get(one.id)))).toEqual(
    many.map((_, n) => n),
  );
});

test("many keys in opposite order, in several statements each, do not deadlock", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // Letters, signs and capitals: whatever order a language gives them, all must take them in the same.
  const keys = Array.from({ length: 4_500 }, (_, n) => `${"aB-é_Z"[n % 6]}${(n * 7919) % 4_500}`);
  const many = keys.map((key, n) => entry(plain, n, { dedupe: { key } }));
  const shift = <T>(list: readonly T[]): T[] => [...list.slice(1_234), ...list.slice(0, 700)];
  // In transactions of one's own nothing is repeated: a deadlock would be seen.
  const [first, second, third] = await Promise.all(
    [many, many.toReversed(), shift(many)].map(async (entries) => {
      const client = new Client(fresh.url);
      await client.connect();
      try {
        await client.query("begin");
        const results = await stint.in(client).enqueueMany(entries);
        await client.query("commit");
        return results.map(({ id }) => id);
      } finally {
        await client.end();
      }
    }),
  );

  expect(second).toEqual(first!.toReversed());
  expect(third).toEqual(shift(first!));
  const stored = await fresh.sql<{ id: string; n: number }>("select id, payload::int as n from stint.job");
  const byId = new Map(stored.map((row) => [row.id, row.n]));
  expect(first!.map((id) => byId.get(id))).toEqual(many.map((_, n) => n));
});

describe("defineJob", () => {
  test.each(["", "a b", "a'b", "-a", "ä", "a\0", "a;b", "x".repeat(129), 5, undefined])(
    "refuses the kind and the queue %j",
    (name) => {
      const payload = typed<unknown>();
      expect(() => defineJob(name as string, { payload })).toThrow(InvalidOptionError);
      expect(() => defineJob(name as string, { payload })).toThrow(
        "defineJob(kind): must be 1 to 128 characters",
      );
      if (name === undefined) return;
      expect(() => defineJob("kind", { payload, queue: name as string })).toThrow(
        'defineJob("kind").queue: must be 1 to 128 characters',
      );
    },
  );

  test.each([
    [
      { payload: undefined },
      'defineJob("kind").payload: must be a Standard Schema (zod, valibot, …), or typed<T>()',
    ],
    [{ payload: {} }, 'defineJob("kind").payload'],
    [{ payload: typed(), result: {} }, 'defineJob("kind").result'],
    [{ payload: typed(), retries: 3 }, 'defineJob("kind").retries: is not an option'],
    [{ payload: typed(), attempt: 3 }, 'did you mean "attempts"?'],
    [
      { payload: typed(), attempts: 0 },
      'defineJob("kind").attempts: must be an integer from 1 to 1000, got 0',
    ],
    [{ payload: typed(), key: "k" }, 'defineJob("kind").key: must be a function, got "k"'],
    [{ payload: typed(), atomic: 1 }, 'defineJob("kind").atomic: must be true or false, got 1'],
    [{ payload: typed(), priority: 1e9 }, 'defineJob("kind").priority'],
    [{ payload: typed(), timeout: "x" }, 'defineJob("kind").timeout'],
    [{ payload: typed(), lease: 1 }, 'defineJob("kind").lease: must be at least 1 s'],
    [{ payload: typed(), backoff: "5s" }, 'defineJob("kind").backoff: must be made by exponential'],
    [undefined, 'defineJob("kind"): must be an object of options, got undefined'],
  ])("refuses the options %j", (options, message) => {
    expect(() => defineJob("kind", options as { payload: StandardSchema })).toThrow(InvalidOptionError);
    expect(() => defineJob("kind", options as { payload: StandardSchema })).toThrow(message);
  });
});
