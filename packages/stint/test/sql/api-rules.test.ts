import { expect, test } from "vitest";
import { toMs } from "#stint/model/duration.js";
import { encodeJson } from "#stint/model/json.js";
import { checkName } from "#stint/model/names.js";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { installed, refusal } from "./api.ts";
import { stored } from "./jobs.ts";

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
    "5 s",
    "2 min 4 s",
    "1 h 30 min",
    "0s",
  ];
  const slips = [
    "5",
    "5 minutes",
    "s",
    "5x",
    "1e3s",
    "-1s",
    "5s5s",
    "1m1h",
    "99999999999d",
    "Infinity",
    "5S",
  ];

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

function attempt(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
