import { expect, test } from "vitest";
import { defineJob, handle, silentLogger, typed, type Logger } from "#stint/index.js";
import { freshSchema, sharedSchema, unusedSchema, type Fresh } from "../support/fresh.ts";
import { inLab, slice } from "../support/lab.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<unknown>(), attempts: 1 });

const newId = `gen_random_uuid()`;

/** The two functions that an enqueue-only role may call with rows as they are. */
const bulk = {
  enqueue_new: async (fresh: Fresh, row: object) =>
    await fresh.sql(
      `select stint.enqueue_new(array[${newId}], array['work'], array['default'], '[1]', jsonb_build_array($1::jsonb), false)`,
      [JSON.stringify(row)],
    ),
  enqueue_rows: async (fresh: Fresh, row: object) =>
    await fresh.sql(
      `select * from stint.enqueue_rows(jsonb_build_array(
         jsonb_build_object('id', ${newId}, 'kind', 'work', 'queue', 'default', 'payload', 1) || $1::jsonb), false)`,
      [JSON.stringify(row)],
    ),
  "enqueue_rows of a repeat": async (fresh: Fresh, row: object) =>
    await fresh.sql(
      `select * from stint.enqueue_rows(jsonb_build_array(
         jsonb_build_object('id', ${newId}, 'kind', 'work', 'queue', 'default', 'payload', 1, 'again', true) || $1::jsonb), false)`,
      [JSON.stringify(row)],
    ),
};
const functions = Object.entries(bulk);

const jobs = inLab ? 100 : 20;
const debugging: Logger = { ...silentLogger, child: () => debugging, isLevelEnabled: () => true };

test.each(slice(functions, ([name]) => name !== "enqueue_rows of a repeat"))(
  "JSON null in a row of %s means omitted, and its batch is recorded",
  async (_, send) => {
    const fresh = await freshSchema();
    const nulls = { meta: null, tags: null, key: null, tenant: null, max_attempts: null };
    for (let n = 0; n < jobs; n++) await send(fresh, n === jobs / 2 ? nulls : { priority: n });
    const { all, seen, worker } = await startWorker(fresh.client({ logger: debugging }), {
      pools: { default: 100 },
      handlers: [handle(work, () => undefined)],
    });
    await seen("settled", () => all("settled").length === jobs);

    expect(await fresh.sql("select state, count(*)::int from stint.jobs group by state")).toEqual([
      { state: "succeeded", count: jobs },
    ]);
    expect(worker.pools).toMatchObject([{ busy: 0 }]);
  },
);

const refused: [string, object, string][] = [
  ["meta that is an array", { meta: [] }, "job_meta_is_an_object"],
  ["meta that is a text", { meta: "x" }, "job_meta_is_an_object"],
  ["33 tags", { tags: Array.from({ length: 33 }, String) }, "job_tags_are_at_most_32_texts"],
  ["a tag of 129 characters", { tags: ["x".repeat(129)] }, "job_tags_are_at_most_32_texts"],
  ["a tag that is null", { tags: [null] }, "job_tags_are_at_most_32_texts"],
  ["an empty key", { key: "" }, "job_keys_have_1_to_512_characters"],
  ["a key of 513 characters", { key: "x".repeat(513) }, "job_keys_have_1_to_512_characters"],
  ["a tenant of 513 characters", { tenant: "x".repeat(513) }, "job_keys_have_1_to_512_characters"],
  ["a run time that is no time", { run_at: "infinity" }, "job_times_are_in_range"],
  ["a run time before 1970", { run_at: "0044-03-15 BC" }, "job_times_are_in_range"],
  ["a run time after 9999", { run_at: "12000-01-01" }, "job_times_are_in_range"],
  ["a timeout of ages", { timeout_ms: "9000000000000000000" }, "job_times_are_in_range"],
  ["no attempts", { max_attempts: 0 }, "job_limits_are_in_range"],
  ["more crashes than there are", { max_crashes: 101 }, "job_limits_are_in_range"],
  ["a priority out of range", { priority: 40_000 }, "out of range"],
];

const shared = sharedSchema();

test.each(refused)("every bulk function refuses %s with the reason", async (_, row, rule) => {
  const fresh = shared();
  for (const [, send] of functions) await expect(send(fresh, row)).rejects.toThrow(rule);
  expect(await fresh.sql("select from stint.job")).toEqual([]);
});

test("every bulk function refuses an empty or overlong kind or queue name", async () => {
  const fresh = shared();
  for (const name of ["", "x".repeat(129)]) {
    for (const [kind, queue] of [
      [name, "default"],
      ["work", name],
    ]) {
      const rule = "job_names_have_1_to_128_characters";
      await expect(
        fresh.sql(`select stint.enqueue_new(array[${newId}], array[$1], array[$2], '[1]', null, false)`, [
          kind,
          queue,
        ]),
      ).rejects.toThrow(rule);
      await expect(bulk.enqueue_rows(fresh, { kind, queue })).rejects.toThrow(rule);
    }
  }
});

test("a worker runs rows with arbitrary column values, and reports each of them", async () => {
  // Its rules are dropped, so it cannot be given to another test.
  const fresh = await unusedSchema();
  await fresh.sql(`alter domain stint.job_meta drop constraint job_meta_is_an_object`);
  await fresh.sql(`alter domain stint.job_tags drop constraint job_tags_are_at_most_32_texts`);
  await fresh.sql(`alter domain stint.job_key drop constraint job_keys_have_1_to_512_characters`);
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, meta, tags, key, tenant)
     select ${newId}, 'work', 'default', 'ready', now(), now(), 'null', m.meta, t.tags, k.key, k.key
     from unnest(array[null, 'null', '1', '"x"', '[]', '{"trace": null}', '{"trace": 5}', '{"trace": {"traceparent": []}}']::jsonb[]) m (meta)
     cross join (values (null::text[]), ('{}'), ('{null}'), ('{{a,null},{b,c}}')) t (tags)
     cross join (values (null), (''), (repeat('x', 2000))) k (key)`,
  );
  const stint = fresh.client({ logger: debugging });
  const { all, seen } = await startWorker(stint, {
    pools: { default: 50 },
    handlers: [
      handle(work, ({ meta, tags, logger }) =>
        logger.info({ meta: Object.keys(meta), tags: tags.join() }, "ran"),
      ),
    ],
  });
  await seen("settled", () => all("settled").length === 96);

  expect(all("settled").filter(({ outcome }) => outcome !== "succeeded")).toEqual([]);
  const { id } = all("settled")[0]!;
  expect(await stint.get(id)).toMatchObject({ state: "succeeded" });
  expect((await stint.list({ limit: 100 })).jobs).toHaveLength(96);
});
