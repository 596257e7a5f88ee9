import { Client } from "pg";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { migrate } from "#stint/db/migrate.js";
import {
  createStint,
  defineJob,
  InvalidOptionError,
  entry,
  SchemaVersionError,
  silentLogger,
  typed,
  WaitTimeoutError,
  type StintOptions,
} from "#stint/index.js";
import { freshSchemaName } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";

const note = defineJob("note", { payload: typed<number>() });
const database = "postgres://nobody@127.0.0.1:1/none";

afterEach(() => {
  vi.unstubAllEnvs();
});

test.each<[unknown, string]>([
  [{ database: "" }, "createStint.database: must be a connection string"],
  [{ database: "localhost" }, 'got "localhost"'],
  [{ database: 5 }, "createStint.database"],
  [{ database: new Client() }, "createStint.database: must be a connection string such as"],
  [{ database, schema: "Bad-Name" }, "createStint.schema: must be 1 to 41 characters"],
  [{ database, schema: "pg_catalog" }, "must not be a schema of Postgres itself"],
  [{ database, schema: `x"; drop schema public; --` }, "createStint.schema"],
  [{ database, shema: "x" }, 'createStint.shema: is not an option; did you mean "schema"?'],
  [{ database, wake: "listen" }, 'createStint.wake: must be "notify" or "none", got "listen"'],
  [{ database, prepare: "no" }, 'createStint.prepare: must be true or false, got "no"'],
  [{ database, connections: 0 }, "createStint.connections: must be an integer from 1 to 100, got 0"],
  [{ database, maxPayloadBytes: 1e12 }, "createStint.maxPayloadBytes"],
  [{ database, logger: console }, "createStint.logger.child: must be a function"],
  [{ database, logger: "pino" }, "createStint.logger.debug: must be a function"],
  [{ database, actor: "" }, "createStint.actor: must not be empty"],
  [{ database, jobs: note }, "createStint.jobs: must be an array of jobs"],
  [{ database, jobs: [note, undefined] }, "createStint.jobs[1]: must be a job made by defineJob"],
  [{ database, jobs: [note, note] }, 'createStint.jobs: has kind "note" twice'],
  [{ database: new URL(database) }, "got an instance of URL. Pass its href."],
  [
    { database: { url: database } },
    "createStint.database.url: is not an option. Stint calls this `connectionString`",
  ],
  [{ database: { hots: "db" } }, 'createStint.database.hots: is not an option; did you mean "host"?'],
  ["postgres://x", 'createStint: takes options: pass { database: "postgres://x" }'],
])("refuses %j", (options, message) => {
  vi.stubEnv("DATABASE_URL", undefined);
  expect(() => createStint(options as StintOptions)).toThrow(InvalidOptionError);
  expect(() => createStint(options as StintOptions)).toThrow(message);
});

const url = "postgres://app:S3cretPw@db.example/x";

test.each<[unknown]>([
  [url],
  [[url]],
  [{ database: [url] }],
  [{ database: { url } }],
  [{ database: { [url]: 1 } }],
  [{ database: url, schema: url }],
  [{ database: url, jobs: [{ url }] }],
  [{ database: url, [url]: 1 }],
  [{ database: "http://app:S3cretPw@host/db" }],
  [{ database: "app:S3cretPw@h/x" }],
  [{ database: new URL(url) }],
])("a password is not shown when %j is refused", (options) => {
  const message = messageOf(() => createStint(options as StintOptions));
  expect(message).toContain("createStint");
  expect(message).not.toContain("S3cret");
});

test("a refused connection throws an error with the fix", async () => {
  const { url: good } = await freshSchema();
  const broken = async (change: (url: URL) => void): Promise<string> => {
    const address = new URL(good);
    change(address);
    return await messageWhen(address.href);
  };
  expect(await broken((address) => (address.pathname = "/no_such_database"))).toContain(
    "Create the database, or correct its name.",
  );
  expect(await broken((address) => (address.username = "no_such_role"))).toContain(
    "Check the user and the password",
  );
  expect(await messageWhen("postgres://app:S3cret/Pw@db.example/x")).toContain(
    "percent-encode / # ? % and @",
  );
  expect(await messageWhen(database)).toContain("Nothing is known to be lost; try again.");
});

async function messageWhen(address: string): Promise<string> {
  const stint = createStint({ database: address, logger: silentLogger });
  const messages = await Promise.all(
    [stint.queues(), stint.enqueue(note, 1)].map(
      async (call): Promise<string> =>
        await call.then(
          () => "it worked",
          (error: Error) => error.message,
        ),
    ),
  );
  await stint.close();
  expect(messages.join()).not.toContain("S3cret");
  const [first, second] = messages.map((message) => message.split(". ").slice(1).join(". "));
  expect(first).toBe(second);
  return messages[0]!;
}

function messageOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return (error as Error).message;
  }
  return "it was accepted";
}

test("the default database is DATABASE_URL, and the error names it when it is missing", async () => {
  vi.stubEnv("DATABASE_URL", undefined);
  expect(() => createStint()).toThrow("Is DATABASE_URL set where this process runs?");
  expect(() => createStint({ database: process.env["DATABASE_URL"] })).toThrow(InvalidOptionError);

  const fresh = await freshSchema();
  vi.stubEnv("DATABASE_URL", fresh.url);
  const stint = createStint({ schema: fresh.schema, logger: silentLogger });
  expect((await stint.enqueue(note, 1)).created).toBe(true);
  await stint.close();
});

test("a client connects to nothing until it is used", async () => {
  const stint = createStint({ database, logger: silentLogger });
  await stint.close();
  await stint.close();
  expect(() => createStint({ database: { host: "127.0.0.1", port: 1 } })).not.toThrow();
});

test("a missing schema is refused with the command to run, and found once installed", async () => {
  const fresh = await freshSchema();
  const schema = freshSchemaName();
  const stint = fresh.client({ schema });
  const error = await stint.enqueue(note, 1).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(SchemaVersionError);
  expect((error as Error).message).toContain(`Schema "${schema}" is not installed`);
  expect((error as Error).message).toContain("npx stint migrate");

  await migrate({ connection: fresh.url, schema });
  onTestFinished(async () => void (await fresh.sql(`drop schema "${schema}" cascade`)));
  expect((await stint.enqueue(note, 1)).created).toBe(true);
});

test("a schema newer than this code is refused with the advice to upgrade", async () => {
  const fresh = await freshSchema();
  await fresh.sql("update stint.migration set oldest_code = 99");
  await expect(fresh.client().enqueue(note, 1)).rejects.toThrow(/Upgrade the stint package/);
});

test("close finishes enqueues in flight: plain, deduplicated and many", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = [
    ...Array.from({ length: 20 }, (_, n) => stint.enqueue(note, n)),
    ...Array.from({ length: 20 }, (_, n) => stint.enqueue(note, n, { dedupe: { key: String(n) } })),
  ];
  const many = stint.enqueueMany([entry(note, 1), entry(note, 2)]);
  // Each call has been sent when this runs, and none has a reply.
  await Promise.resolve();
  const closing = stint.close();
  const results = [...(await Promise.all(enqueued)), ...(await many)];
  await closing;
  expect(results.every((result) => result.created)).toBe(true);
  const [row] = await fresh.sql<{ n: number }>("select count(*)::int as n from stint.job");
  expect(row!.n).toBe(42);
});

test("close ends waitFor, leaves its job alone, and closes every connection", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueued = await stint.enqueue(note, 1, { dedupe: { key: "k" } });
  const waiting = stint.waitFor(enqueued).catch((error: unknown) => error);
  await stint.close();
  expect(await waiting).toBeInstanceOf(WaitTimeoutError);
  await until(
    async () => {
      const rows = await fresh.sql("select from pg_stat_activity where query like $1", [
        `%"${fresh.schema}".enqueue_rows%`,
      ]);
      return rows.length === 0;
    },
    { message: "the client's connections are gone" },
  );
});

test("a closed client refuses every call at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.close();
  const id = "0199a000-0000-7000-8000-00000000abcd";
  for (const attempt of [
    () => stint.enqueue(note, 1),
    () => stint.enqueueMany([entry(note, 1)]),
    () => stint.get(id),
    () => stint.list(),
    () => stint.cancel(id),
    () => stint.runNow(id),
    () => stint.replay(id, { reason: "x" }),
    () => stint.waitFor(id),
    () => stint.queues(),
    () => stint.workers(),
  ]) {
    await expect(attempt()).rejects.toThrow("stint: was closed. Make another client with createStint(…)");
  }
});
