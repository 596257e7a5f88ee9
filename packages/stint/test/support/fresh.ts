import { beforeAll, onTestFinished } from "vitest";
import { createStint, silentLogger, type Stint } from "#stint/index.js";
import type { StintOptions } from "#stint/client/options.js";
import { migrate } from "#stint/db/migrate.js";
import { PgDb } from "#stint/db/pg.js";
import type { ServerClock } from "#stint/db/server-clock.js";
import { forSchema } from "#stint/db/statement.js";
import { freshSchemaName, query, testDatabaseUrl } from "./database.ts";
import { takeReadySchema } from "./own-server.ts";
import { fingerprint, hasShelf, putOnShelf, takeFromShelf, type Shelved } from "./shelf.ts";

/** An installation for one test. It is reused or removed when the test passed, and kept and named when it failed. */
export type Fresh = {
  readonly schema: string;
  readonly url: string;
  /** For calling `sql/` directly. */
  readonly db: PgDb;
  /** A client on this schema. Closed when the test ends. */
  client(options?: Partial<StintOptions>): Stint;
  /** Run SQL written against `stint.` on this schema. */
  sql<Row extends Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
};

/** An empty schema that is indistinguishable from a new one; see shelf.ts. */
export async function freshSchema(url = testDatabaseUrl()): Promise<Fresh> {
  return hasShelf(url)
    ? await open(url, (await takeFromShelf()) ?? (await makeForShelf(url)))
    : await unusedSchema(url);
}

/** A new schema, for tests that count pages. */
export async function unusedSchema(url = testDatabaseUrl()): Promise<Fresh> {
  return await open(url, await make(url));
}

/** One installation for all tests of a file, each of which reads only what it added itself. */
export function sharedSchema(url: () => string = testDatabaseUrl): () => Fresh {
  let opened: Opened | undefined;
  beforeAll(async () => {
    const made = hasShelf(url())
      ? ((await takeFromShelf()) ?? (await makeForShelf(url())))
      : await make(url());
    opened = openSchema(url(), made);
    return opened.end;
  });
  return () => {
    if (opened === undefined) throw new Error("The schema exists within tests only");
    return opened.fresh;
  };
}

async function make(url: string): Promise<Shelved> {
  const ready = hasShelf(url) ? undefined : await takeReadySchema(url);
  const schema = ready ?? freshSchemaName();
  if (ready === undefined) await migrate({ connection: url, schema });
  return { schema, fingerprint: null };
}

async function makeForShelf(url: string): Promise<Shelved> {
  const { schema } = await make(url);
  return { schema, fingerprint: await fingerprint(schema) };
}

async function open(url: string, shelved: Shelved): Promise<Fresh> {
  const { schema } = shelved;
  const { fresh, close, end } = openSchema(url, shelved);
  onTestFinished(async ({ task }) => {
    if (task.result?.state !== "fail") return await end();
    await close();
    process.stderr.write(`kept schema ${schema} of the failed test "${task.name}"\n`);
  });
  return fresh;
}

type Opened = {
  fresh: Fresh;
  /** Closes every connection. */
  close: () => Promise<void>;
  /** The same, and the schema is reused or removed. */
  end: () => Promise<void>;
};

function openSchema(url: string, shelved: Shelved): Opened {
  const { schema } = shelved;
  const db = openDb(url, schema);
  const closers: (() => Promise<void>)[] = [() => db.close()];
  const close = async (): Promise<void> => {
    for (const closer of closers.reverse()) await closer();
  };
  const end = async (): Promise<void> => {
    await close();
    if (!(await putOnShelf(shelved)))
      await query(`drop schema "${schema}" cascade`, [], url).catch(() => undefined);
  };
  const fresh: Fresh = {
    schema,
    url,
    db,
    client(options = {}) {
      const stint = createStint({ database: url, schema, logger: silentLogger, ...options });
      closers.push(() => stint.close());
      return stint;
    },
    async sql<Row extends Record<string, unknown>>(text: string, values: readonly unknown[] = []) {
      return await query<Row>(forSchema(text, schema), values, url);
    },
  };
  return { fresh, close, end };
}

/** `clock`: an estimate of the server's clock, if the test has its own. */
export function openDb(url: string, schema: string, clock?: ServerClock): PgDb {
  return new PgDb({
    connection: url,
    schema,
    connections: 4,
    transactions: 4,
    applicationName: "stint-test",
    prepare: true,
    deadlineMs: 15_000,
    connectDeadlineMs: 5_000,
    ...(clock === undefined ? {} : { clock }),
    onError: () => undefined,
  });
}
