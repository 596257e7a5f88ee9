import { drizzle as drizzleOnPg } from "drizzle-orm/node-postgres";
import { drizzle as drizzleOnPostgresJs } from "drizzle-orm/postgres-js";
import { CamelCasePlugin, Kysely, PostgresDialect, type KyselyPlugin } from "kysely";
import { Client, Pool } from "pg";
import postgres from "postgres";
import type { TransactionLike } from "#stint/index.js";

/** Runs the work in one transaction of some client: committed if it resolves, rolled back if it rejects. */
export type InTransaction = (url: string, work: (tx: TransactionLike) => Promise<void>) => Promise<void>;

export async function onPg(client: Pick<Client, "query">, work: () => Promise<void>): Promise<void> {
  await client.query("begin");
  try {
    await work();
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

const kysely =
  (plugins: KyselyPlugin[]): InTransaction =>
  async (url, work) => {
    const db = new Kysely({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: url, max: 1 }) }),
      plugins,
    });
    try {
      await db.transaction().execute(work);
    } finally {
      await db.destroy();
    }
  };

export const clients: [string, InTransaction][] = [
  [
    "a pg Client",
    async (url, work) => {
      const client = new Client({ connectionString: url });
      await client.connect();
      try {
        await onPg(client, () => work(client));
      } finally {
        await client.end();
      }
    },
  ],
  [
    "a pg PoolClient",
    async (url, work) => {
      const pool = new Pool({ connectionString: url, max: 1 });
      const client = await pool.connect();
      try {
        await onPg(client, () => work(client));
      } finally {
        client.release();
        await pool.end();
      }
    },
  ],
  [
    "postgres.js",
    async (url, work) => {
      const sql = postgres(url, { max: 1, onnotice: () => undefined });
      try {
        await sql.begin((tx) => work(tx));
      } finally {
        await sql.end();
      }
    },
  ],
  [
    "Drizzle on pg",
    async (url, work) => {
      const pool = new Pool({ connectionString: url, max: 1 });
      try {
        await drizzleOnPg({ client: pool }).transaction((tx) => work(tx));
      } finally {
        await pool.end();
      }
    },
  ],
  [
    "Drizzle on postgres.js",
    async (url, work) => {
      const sql = postgres(url, { max: 1, onnotice: () => undefined });
      try {
        await drizzleOnPostgresJs({ client: sql }).transaction((tx) => work(tx));
      } finally {
        await sql.end();
      }
    },
  ],
  ["Kysely", kysely([])],
  ["Kysely with the CamelCasePlugin", kysely([new CamelCasePlugin()])],
  [
    "an adapter of two lines",
    async (url, work) => {
      const client = new Client({ connectionString: url });
      await client.connect();
      try {
        await onPg(client, () =>
          work({
            query: async (text, values) => (await client.query(text, values)).rows,
          }),
        );
      } finally {
        await client.end();
      }
    },
  ],
];
