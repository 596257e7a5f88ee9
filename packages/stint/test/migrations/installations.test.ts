import { expect, onTestFinished, test } from "vitest";
import { createStint, defineJob, handle, silentLogger, typed } from "#stint/index.js";
import { migrate } from "#stint/db/migrate.js";
import { SchemaVersionError } from "#stint/errors.js";
import { schemaVersion } from "#stint/sql/schema-version.js";
import { query, testDatabaseUrl } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";

const add = defineJob("add", { payload: typed<number>(), result: typed<number>() });

test.each(
  slice(["user", "select", "_x9", "table", "a23456789012345678901234567890123456789_b"], (name) =>
    /select|_b$/.test(name),
  ),
)("a schema may be called %s", async (schema) => {
  await query(`drop schema if exists "${schema}" cascade`);
  onTestFinished(async () => {
    await query(`drop schema if exists "${schema}" cascade`);
  });
  await migrate({ connection: testDatabaseUrl(), schema });
  const stint = createStint({ database: testDatabaseUrl(), schema, logger: silentLogger });
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(add, ({ payload }) => payload + 1)],
  });
  await worker.start();

  const [fromSql] = await query<{ id: string }>(`select "${schema}".enqueue('add', '4') as id`);
  const results = [
    await stint.waitFor(await stint.enqueue(add, 1), { timeout: "60s" }),
    await stint.waitFor(fromSql!.id, { timeout: "60s" }),
  ];
  await worker.stop();
  await stint.close();

  expect(results).toEqual([2, 5]);
});

test("two installations in one database are independent", async () => {
  const [one, two] = [await freshSchema(), await freshSchema()];
  const [first, second] = [one.client(), two.client()];
  const worker = second.worker({
    pools: { default: 2 },
    signals: false,
    handlers: [handle(add, ({ payload }) => payload)],
  });
  await worker.start();

  const job = await first.enqueue(add, 1, { dedupe: { key: "same" } });
  const other = await second.enqueue(add, 2, { dedupe: { key: "same" } });
  const result = await second.waitFor(other, { timeout: "60s" });
  await worker.stop();

  expect([job.created, other.created, result]).toEqual([true, true, 2]);
  expect(await first.get(job.id)).toMatchObject({ state: "ready", attempts: 0 });
  expect(await second.get(job.id)).toBeUndefined();
  expect(await first.workers()).toEqual([]);
  const channels = await Promise.all(
    [one, two].map(async (fresh) => await fresh.sql(`select stint.wake_channel() as channel`)),
  );
  expect(channels).toEqual([[{ channel: `stint:${one.schema}` }], [{ channel: `stint:${two.schema}` }]]);
});

test("a schema that is not installed is refused with the command that installs it", async () => {
  const stint = createStint({
    database: testDatabaseUrl(),
    schema: "not_installed_anywhere",
    logger: silentLogger,
  });
  onTestFinished(() => stint.close());
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(add, ({ payload }) => payload)],
  });

  const errors = await Promise.all(
    [stint.enqueue(add, 1), worker.start()].map(
      async (attempt) => await attempt.catch((error: unknown) => error),
    ),
  );

  for (const error of errors) {
    expect(error).toBeInstanceOf(SchemaVersionError);
    expect((error as Error).message).toMatch(
      /"not_installed_anywhere" is not installed.*Run `npx stint migrate --schema not_installed_anywhere`/,
    );
  }
});

test("a partly installed schema is refused like a missing one", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`delete from stint.migration`);

  await expect(fresh.client().enqueue(add, 1)).rejects.toThrow(/is not installed.*npx stint migrate/);
});

test("a newer schema is accepted while it supports this code, and refused after that", async () => {
  const fresh = await freshSchema();
  const newer = `insert into stint.migration (version, name, oldest_code, checksum) values ($1, 'future', $2, '')`;

  await fresh.sql(newer, [schemaVersion + 1, schemaVersion]);
  const accepted = await fresh.client().enqueue(add, 1);
  await fresh.sql(newer, [schemaVersion + 2, schemaVersion + 1]);
  const refused = fresh.client().enqueue(add, 1);

  expect(accepted.created).toBe(true);
  await expect(refused).rejects.toBeInstanceOf(SchemaVersionError);
  await expect(refused).rejects.toThrow(
    `at version ${schemaVersion + 2}, this Stint needs version ${schemaVersion}. Upgrade the stint package`,
  );
});
