import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import {
  createStint,
  defineJob,
  handle,
  PermanentError,
  silentLogger,
  typed,
  type Stint,
} from "#stint/index.js";
import { migrate, migrationStatus } from "#stint/db/migrate.js";
import { forSchema } from "#stint/db/statement.js";
import { grantSql } from "#stint/sql/grants.js";
import { dropOldDays } from "#stint/sql/prune.js";
import { adminClient, query, testDatabaseUrl } from "../support/database.ts";
import { openDb } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { transactionPooler } from "../doctor/transaction-pooler.ts";

/** Defaults that read and write everything another way than nearly everybody's. */
const hostile = {
  datestyle: "'German, DMY'",
  intervalstyle: "'sql_standard'",
  timezone: "'America/St_Johns'",
  extra_float_digits: "-15",
  bytea_output: "'escape'",
  xmlbinary: "'hex'",
  standard_conforming_strings: "off",
  backslash_quote: "off",
  array_nulls: "off",
  search_path: "pg_temp, hostile_schema_that_is_not_there",
  default_transaction_isolation: "'serializable'",
  default_transaction_deferrable: "on",
  lock_timeout: "'2s'",
  statement_timeout: "'20s'",
  idle_in_transaction_session_timeout: "'10s'",
  idle_session_timeout: "'30s'",
  enable_indexscan: "off",
};

type Place = { url: string; schema: string; sql: (text: string) => Promise<Record<string, unknown>[]> };

/** A schema whose owner has such defaults, and does everything. */
async function owned(defaults: Partial<typeof hostile>): Promise<Place> {
  const [role, schema] = [
    `role_${randomBytes(6).toString("hex")}`,
    `hostile_${randomBytes(6).toString("hex")}`,
  ];
  await query(`create role "${role}" login nosuperuser password 'secret'`);
  onTestFinished(async () => {
    await query(`drop schema if exists "${schema}" cascade`);
    await query(`drop owned by "${role}" cascade`).catch(() => undefined);
    await query(`drop role "${role}"`).catch(() => undefined);
  });
  const [{ name } = { name: "" }] = await query<{ name: string }>(`select current_database() as name`);
  await query(grantSql("owner", { role, database: name }));
  for (const [setting, value] of Object.entries(defaults)) {
    const known = await query(`select from pg_settings where lower(name) = $1`, [setting]);
    if (known.length > 0) await query(`alter role "${role}" set ${setting} = ${value}`);
  }
  const url = new URL(testDatabaseUrl());
  [url.username, url.password] = [role, "secret"];
  await migrate({ connection: url.href, schema });
  return { url: url.href, schema, sql: async (text) => await query(forSchema(text, schema)) };
}

function client({ url, schema }: Pick<Place, "url" | "schema">, options = {}): Stint {
  const stint = createStint({ database: url, schema, logger: silentLogger, ...options });
  onTestFinished(async () => await stint.close());
  return stint;
}

const work = defineJob("work", {
  payload: typed<{ does: "succeed" | "retry" | "die"; n?: number }>(),
  backoff: () => "10ms",
});
const later = defineJob("later", { queue: "later", payload: typed<object>() });

const isRecent = (at: Date | null): boolean => at !== null && Math.abs(at.getTime() - Date.now()) < 300_000;

/** Runs jobs to every outcome on two workers, and reads them in every way. Returns how many tallies are wrong. */
async function life(place: Place, options: object): Promise<unknown> {
  const stint = client(place, options);
  let failures = 0;
  const ran: number[] = [];
  const serving = (): ReturnType<Stint["worker"]> =>
    stint.worker({
      pools: { default: 4 },
      handlers: [
        handle(work, async ({ payload: { does, n = 0 } }) => {
          await Promise.resolve();
          ran.push(n);
          if (does === "die") throw new PermanentError("it is hopeless");
          if (does === "retry" && failures++ === 0) throw new Error("once");
        }),
      ],
    });
  const dead = await stint.enqueue(work, { does: "die" });
  const retried = await stint.enqueue(work, { does: "retry" });
  await stint.enqueueMany(
    Array.from({ length: 40 }, (_, n) => ({ job: work, payload: { does: "succeed" as const, n } })),
  );
  const delayed = await stint.enqueue(later, {}, { delay: "1h" });
  await stint.enqueueMany(Array.from({ length: 1_234 }, () => ({ job: later, payload: {} })));
  // As SQL, in a session with these very defaults.
  const sql = await adminClient(place.url);
  onTestFinished(async () => await sql.end());
  await sql.query(
    forSchema(
      `select stint.enqueue('later', '{}', '{"queue": "later", "delay": "1h30m", "key": "a\\\\b"}'),
              stint.enqueue('later', '{}', '{"queue": "later", "runAt": "2031-02-03T04:05:06.7Z"}')`.replaceAll(
        "'",
        () => "$$",
      ),
      place.schema,
    ),
  );
  const workers = [serving(), serving()];
  for (const worker of workers) await worker.start();
  await until(async () => (await stint.get(retried.id))?.state === "succeeded", { message: "retried" });
  await until(async () => (await stint.get(dead.id))?.state === "dead", { message: "dead" });
  await until(() => ran.length >= 43, { message: "all have run" });
  await stint.replay(dead.id, { reason: "again" });
  await until(async () => (await stint.get(dead.id))?.run === 2, { message: "replayed" });
  await until(async () => (await stint.get(dead.id))?.state === "dead", { message: "dead again" });
  await stint.cancel(delayed.id, { reason: "not needed" });
  for (const worker of workers) await worker.stop();

  const job = await stint.get(retried.id);
  expect(job).toMatchObject({ state: "succeeded", attempts: 2 });
  expect([job!.createdAt, job!.runAt, job!.finishedAt, job!.claimedAt].every(isRecent)).toBe(true);
  expect((await stint.get(delayed.id))?.state).toBe("cancelled");
  const inspector = stint.inspector();
  onTestFinished(async () => await inspector.close());
  const health = await inspector.health();
  expect(isRecent(health.at)).toBe(true);
  expect(health.queues.find(({ queue }) => queue === "later")?.depth).toMatchObject({
    ready: 1_234,
    scheduled: 2,
  });
  expect(health.total.dead).toBe(1);
  const { lastHour } = await inspector.stats();
  expect(lastHour.claimed).toBe(44);
  expect([lastHour.wait.p50, lastHour.run.p50].every(Number.isFinite)).toBe(true);
  const { jobs } = await inspector.jobs({ queue: "later", state: "scheduled" });
  expect(jobs.map(({ runAt }) => runAt.toISOString()).toSorted()[1]).toBe("2031-02-03T04:05:06.700Z");
  const until90 = jobs.map(({ runAt }) => runAt.getTime() - Date.now()).toSorted((a, b) => a - b)[0]!;
  expect(Math.abs(until90 - 5_400_000)).toBeLessThan(60_000);
  const [{ wrong } = { wrong: -1 }] = await place.sql(
    `select count(*)::integer as wrong from stint.depth d full join stint.counted c using (queue, kind, priority)
     where coalesce(d.live, 0) <> coalesce(c.live, 0) or coalesce(d.dead, 0) <> coalesce(c.dead, 0)`,
  );
  return { wrong };
}

test("a job's whole life works for a role whose defaults are all unusual", async () => {
  const place = await owned(hostile);
  const status = await migrationStatus({ connection: place.url, schema: place.schema });
  expect(status.every(({ appliedAt }) => isRecent(appliedAt))).toBe(true);
  expect(await life(place, {})).toEqual({ wrong: 0 });
}, 60_000);

test("unusual defaults also work behind a pooler, with settings for each statement", async () => {
  expect(await life(await owned(hostile), { prepare: false })).toEqual({ wrong: 0 });
}, 60_000);

test("old days are dropped by a role without standard_conforming_strings", async () => {
  const place = await owned(hostile);
  await place.sql(`create table stint.history_done_20010101 (like stint.history_done)`);
  await place.sql(
    `alter table stint.history_done attach partition stint.history_done_20010101 for values from ('2001-01-01Z') to ('2001-01-02Z')`,
  );
  const [{ owner } = { owner: "" }] = await place.sql(
    `select tableowner as owner from pg_tables where schemaname = '${place.schema}' and tablename = 'job'`,
  );
  await place.sql(`alter table stint.history_done_20010101 owner to "${owner as string}"`);
  const db = openDb(place.url, place.schema);
  onTestFinished(async () => await db.close());

  expect(await dropOldDays(db, 86_400_000)).toBe(1);
});

test("a handler's transaction keeps its role's settings, except the date style", async () => {
  const place = await owned(hostile);
  const db = openDb(place.url, place.schema);
  onTestFinished(async () => await db.close());
  const rows = await db.transaction(async (tx) => {
    const { rows: shown } = await tx.query(
      `select current_setting('timezone') as zone, current_setting('transaction_isolation') as isolation,
         current_setting('datestyle') as style, now() as now`,
    );
    return shown;
  });

  expect(rows).toMatchObject([{ zone: "America/St_Johns", isolation: "serializable", style: "ISO, DMY" }]);
  expect(isRecent(rows[0]!["now"] as Date)).toBe(true);
});

test("times are right behind a pooler that keeps no settings", async () => {
  const place = await owned({ datestyle: hostile.datestyle });
  const url = await transactionPooler(place.url);
  const stint = client({ url, schema: place.schema }, { prepare: false, wake: "none" });
  const { id } = await stint.enqueue(later, {});
  const jobs = await Promise.all(Array.from({ length: 6 }, async () => await stint.get(id)));

  expect(jobs.map((job) => isRecent(job!.createdAt))).toEqual(jobs.map(() => true));
});
