import type { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  createStint,
  defineJob,
  entry,
  handle,
  silentLogger,
  typed,
  type Logger,
  type Stint,
} from "#stint/index.js";
import { migrate } from "#stint/db/migrate.js";
import { PgDb } from "#stint/db/pg.js";
import { statement } from "#stint/db/statement.js";
import { stint } from "../cli/support.ts";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { hasPgBouncer, pgBouncer } from "../support/pgbouncer.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<{ n: number }>(), result: typed<number>() });
const transfer = defineJob("transfer", { payload: typed<{ n: number }>() });

/** A client with default options, but for where the database is. */
function client(fresh: Fresh, url: string, options = {}): Stint {
  const stint = createStint({ database: url, schema: fresh.schema, logger: silentLogger, ...options });
  onTestFinished(async () => await stint.close());
  return stint;
}

/** Everything a session can have of its own, as another client of the pooler sees it. */
async function sessionOf(foreign: Client): Promise<unknown> {
  const { rows: settings } = await foreign.query(
    `select name, setting, source from pg_settings
     where name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable') order by name`,
  );
  const { rows: left } = await foreign.query(
    `select (select count(*) from pg_prepared_statements) as prepared,
            (select count(*) from pg_listening_channels()) as channels,
            (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') as locks,
            current_user as role, pg_my_temp_schema() as temp`,
  );
  return { settings, left };
}

/** One client in a transaction for each connection that the pooler has to the server. */
async function onAll<T>(url: string, poolSize: number, work: (one: Client) => Promise<T>): Promise<T[]> {
  const clients = await Promise.all(Array.from({ length: poolSize }, async () => await adminClient(url)));
  for (const one of clients) await one.query("begin");
  const results = await Promise.all(clients.map(work));
  for (const one of clients) await one.query("commit").then(async () => await one.end());
  return results;
}

/** What a client of the pooler sets on a connection to the server stays for those that have it later. */
async function setOnAll(url: string, poolSize: number, statements: readonly string[]): Promise<void> {
  await onAll(url, poolSize, async (one) => await one.query(statements.join("; ")));
}

async function sessions(url: string, poolSize: number): Promise<unknown[]> {
  return await onAll(url, poolSize, sessionOf);
}

describe.skipIf(!hasPgBouncer)("PgBouncer in transaction mode", () => {
  test("a worker with default options runs 1,000 jobs and closes", async () => {
    const fresh = await freshSchema();
    const url = await pgBouncer();
    const stint = client(fresh, url);
    const ran = new Set<number>();
    const worker = stint.worker({
      pools: { default: 10 },
      signals: false,
      handlers: [handle(work, ({ payload: { n } }) => (ran.add(n), n * 2))],
    });
    await worker.start();
    const single = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => await stint.enqueue(work, { n })),
    );
    await stint.enqueueMany(Array.from({ length: 900 }, (_, n) => entry(work, { n: 200 + n })));

    await until(() => ran.size === 1_100, { message: "all have run", deadlineMs: 60_000 });
    expect(await stint.waitFor(single[7]!)).toBe(14);
    await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
      message: "all settled",
    });
    await stint.close();
    const rows = await fresh.sql(`select from stint.history where state <> 'succeeded' or attempts <> 1`);
    expect(rows).toEqual([]);
  }, 120_000);

  test("sessions shared with other clients are unchanged", async () => {
    const fresh = await freshSchema();
    const url = await pgBouncer({ poolSize: 3 });
    await setOnAll(url, 3, [
      "set extra_float_digits = 3",
      "set default_transaction_isolation = 'repeatable read'",
      "set array_nulls = off",
      "set statement_timeout = '77s'",
      // Loads the language, which brings settings of its own.
      "do $$ begin end $$",
    ]);
    const before = await sessions(url, 3);

    const stint = client(fresh, url);
    let handled = 0;
    const worker = stint.worker({
      pools: { default: 4 },
      signals: false,
      handlers: [
        handle(work, ({ payload }) => payload.n),
        handle(transfer, async ({ complete }) => {
          await complete(async (tx) => void (await tx.query("select $1::int", [handled++])));
        }),
      ],
    });
    await worker.start();
    const jobs = await stint.enqueueMany([
      ...Array.from({ length: 50 }, (_, n) => entry(work, { n })),
      ...Array.from({ length: 20 }, (_, n) => entry(transfer, { n })),
    ]);
    for (const { id } of jobs) await stint.waitFor(id, { timeout: "60s" });
    const inspector = stint.inspector();
    await inspector.health();
    expect((await inspector.jobs({ kind: "work" })).jobs).toHaveLength(50);
    await stint.close();
    await migrate({ connection: url, schema: fresh.schema });

    expect(await sessions(url, 3)).toEqual(before);
  }, 120_000);

  test("a pooler is logged once, with what changes behind it", async () => {
    const fresh = await freshSchema();
    const logged = messages();
    const stint = client(fresh, await pgBouncer(), { logger: logged.logger });
    const worker = stint.worker({
      pools: { default: 4 },
      signals: false,
      handlers: [handle(work, ({ payload }) => payload.n)],
    });
    await worker.start();
    await until(() => logged.texts().some((text) => text.includes("without LISTEN")));
    for (let n = 0; n < 20; n++) await stint.waitFor(await stint.enqueue(work, { n }), { timeout: "60s" });
    await stint.close();

    expect(logged.texts().filter((text) => text.includes("a pooler stands between"))).toEqual([
      "a pooler stands between: settings hold for one statement only",
      "a pooler stands between: polling for jobs, without LISTEN",
    ]);
  }, 60_000);

  test("requested prepared statements are turned off when the pooler loses them", async () => {
    const fresh = await freshSchema();
    const logged = messages();
    const stint = client(fresh, await pgBouncer({ poolSize: 3 }), { prepare: true, logger: logged.logger });
    const others = client(fresh, await pgBouncer({ poolSize: 3 }), { prepare: true });
    const jobs = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const { id } = await (n % 2 === 0 ? stint : others).enqueue(work, { n }, { dedupe: { key: `${n}` } });
        return await stint.get(id);
      }),
    );

    expect(jobs.map((job) => job?.state)).toEqual(jobs.map(() => "ready"));
    expect(logged.texts().filter((text) => text.includes("lost named statements")).length).toBeLessThan(2);
  }, 60_000);

  test("a long lease is kept through the pooler while the handler blocks", async () => {
    const fresh = await freshSchema();
    const stint = client(fresh, await pgBouncer({ poolSize: 2 }));
    const { worker, all } = await startWorker(stint, {
      lease: "4s",
      handlers: [
        handle(work, () => {
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 9_000);
          return 1;
        }),
      ],
    });
    const job = await stint.enqueue(work, { n: 1 });
    expect(await stint.waitFor(job, { timeout: "60s" })).toBe(1);
    await worker.stop();

    expect(all("leaseLost")).toEqual([]);
    expect(await stint.get(job.id)).toMatchObject({ attempts: 1, crashes: 0 });
  }, 90_000);

  test("the inspector's time limit reaches the server through the pooler", async () => {
    const fresh = await freshSchema();
    const url = await pgBouncer();
    const db = new PgDb({
      connection: url,
      schema: fresh.schema,
      connections: 1,
      transactions: 1,
      applicationName: "stint-test",
      statementTimeoutMs: 50,
      deadlineMs: 60_000,
      connectDeadlineMs: 60_000,
      onError: () => undefined,
    });
    onTestFinished(async () => await db.close());
    const slow = db.run(statement("slow", "select pg_sleep(50)"), []);
    await expect(slow).rejects.toMatchObject({ code: "57014" });

    expect(await db.run(statement("one", "select 1 as one"), [])).toEqual([{ one: 1 }]);
    const [row] = await db.run(
      statement("limit", "select current_setting('statement_timeout') as own, now() as now"),
      [],
    );
    expect(row).toMatchObject({ own: "50ms", now: expect.any(Date) as Date });
    expect(await onAll(url, 1, async (one) => (await one.query("show statement_timeout")).rows)).toEqual([
      [{ statement_timeout: "0" }],
    ]);
  }, 90_000);

  test("every command works through one shared connection", async () => {
    const fresh = await freshSchema();
    const url = await pgBouncer({ poolSize: 1 });
    const own = client(fresh, url);
    const { id } = await own.enqueue(work, { n: 1 });
    const run = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await stint([...args, "--schema", fresh.schema], {
        env: { DATABASE_URL: url },
      });
      expect({ args, code, stderr }).toMatchObject({
        code: 0,
        stderr: expect.not.stringContaining("Error") as string,
      });
      return stdout;
    };
    await run("migrate");
    await run("migrate", "--status");
    expect(await run("jobs", "list")).toContain("work");
    expect(await run("jobs", "show", id)).toContain("ready");
    await run("jobs", "why", id);
    await run("stats");
    await run("dead", "list");
    // The test server is configured for speed, which the doctor reports.
    const doctor = await stint(["doctor", "--json", "--schema", fresh.schema], {
      env: { DATABASE_URL: url },
    });
    const { findings } = JSON.parse(doctor.stdout) as { findings: { check: string; title: string }[] };
    expect(findings.filter(({ check }) => check === "pooler")).toMatchObject([
      { level: "note", title: "Clients connect through a pooler" },
    ]);
    expect(findings.filter(({ title }) => title.endsWith(" failed"))).toEqual([]);
    await run("jobs", "cancel", id, "--yes", "--reason", "not needed");
    expect(await own.get(id)).toMatchObject({ state: "cancelled" });
  }, 240_000);
});

test.skipIf(!hasPgBouncer)(
  "PgBouncer in session mode: jobs run, and LISTEN works if requested",
  async () => {
    const fresh = await freshSchema();
    const url = await pgBouncer({ mode: "session", poolSize: 30 });
    const stint = client(fresh, url, { wake: "notify", prepare: true });
    const { worker } = await startWorker(stint, {
      poll: "1h",
      handlers: [handle(work, ({ payload }) => payload.n * 2)],
    });
    // Another client: only NOTIFY announces its enqueues.
    await until(async () => (await fresh.sql("select from stint.worker where listening")).length === 1);
    const other = client(fresh, url);
    const jobs = await Promise.all([1, 2, 3].map(async (n) => await other.enqueue(work, { n })));
    expect(await Promise.all(jobs.map(async (job) => await other.waitFor(job, { timeout: "60s" })))).toEqual([
      2, 4, 6,
    ]);
    await worker.stop();
  },
  90_000,
);

test.skipIf(!hasPgBouncer)(
  "a setting that PgBouncer refuses at login is reported, with the fix",
  async () => {
    const fresh = await freshSchema();
    const { host, port, username, password, pathname } = new URL(await pgBouncer());
    const stint = createStint({
      database: {
        host: host.split(":")[0]!,
        port: Number(port),
        user: username,
        password,
        database: pathname.slice(1),
        options: "-c statement_timeout=5s",
      },
      schema: fresh.schema,
      logger: silentLogger,
    });
    onTestFinished(async () => await stint.close());

    await expect(stint.queues()).rejects.toThrow(
      /unsupported startup parameter: options.*Leave out `options`/s,
    );
  },
);

/** A logger that keeps its lines. */
function messages(): { logger: Logger; texts: () => string[] } {
  const texts: string[] = [];
  const write = (_: unknown, text?: string): void => void texts.push(text ?? "");
  const logger: Logger = {
    debug: () => undefined,
    info: write,
    warn: write,
    error: write,
    child: () => logger,
  };
  return { logger, texts: () => texts };
}
